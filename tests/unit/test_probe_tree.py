from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.probe_tree import ProbeTree


def tree(files: Mapping[str, str | bytes]) -> ProbeTree:
    contents = {
        path: textwrap.dedent(text).encode() if isinstance(text, str) else text
        for path, text in files.items()
    }
    return ProbeTree(label="v1.2.0", read=contents.get)


MODEL = """
    import abc

    class Root(abc.ABC, Generic[T]):
        def load(self): ...

    class Middle(mixins.Sized, Root):
        if FLAG:
            def forward(self):
                return "middle"
        def size(self): ...

    class Model(Middle, Middle):
        @property
        @cached(
            size=3,
        )
        def layers(self):
            # a comment
            return (
                1,
            )

        async def stream(self): ...

        class Inner(Root):
            def deep(self):
                return 5

    try:
        class Optional: ...
    except ImportError:
        def fallback(): return 1
    else:
        def fallback(): return 2
"""


def test_a_missing_file_is_an_error_that_names_tree_and_path() -> None:
    view = tree({"here.py": "x = 1\n"})
    assert view.exists("here.py")
    assert not view.exists("gone.py")
    for ask in (
        view.read_bytes,
        view.read_text,
        view.parse,
        lambda path: view.literal(path, "x"),
        lambda path: view.find_assigned(path, "x"),
        lambda path: view.class_bases(path, "C"),
        lambda path: view.class_methods(path, "C"),
        lambda path: view.function(path, "f"),
        lambda path: view.function_source(path, "f"),
    ):
        with pytest.raises(FileNotFoundError, match=r"^v1\.2\.0 has no file gone\.py$"):
            ask("gone.py")


def test_an_empty_file_is_there() -> None:
    view = tree({"empty.py": b""})
    assert view.exists("empty.py")
    assert view.read_text("empty.py") == ""
    assert view.class_bases("empty.py", "C") == frozenset()
    assert view.function_source("empty.py", "f") is None


def test_text_is_utf8_without_a_byte_order_mark_and_keeps_its_line_ends() -> None:
    view = tree({"bom.py": "\ufeffx = 'é'\r\n".encode(), "latin.py": b"# \xe9\n"})
    assert view.read_text("bom.py") == "x = 'é'\r\n"
    assert view.literal("bom.py", "x") == "é"
    with pytest.raises(UnicodeDecodeError):
        view.read_text("latin.py")


def test_a_file_that_is_not_python_names_tree_and_path() -> None:
    with pytest.raises(SyntaxError) as caught:
        tree({"bad.py": "def broken(:\n"}).parse("bad.py")
    assert caught.value.filename == "v1.2.0:bad.py"


def test_each_file_is_read_and_parsed_once() -> None:
    asked: list[str] = []

    def read(path: str) -> bytes | None:
        asked.append(path)
        return b"x = 1\n" if path == "a.py" else None

    view = ProbeTree("t", read)
    assert view.parse("a.py") is view.parse("a.py")
    assert view.read_text("a.py") == "x = 1\n"
    assert not view.exists("b.py")
    assert not view.exists("b.py")
    assert asked == ["a.py", "b.py"]


def test_a_literal_is_found_wherever_it_is_assigned() -> None:
    view = tree(
        {
            "config.py": """
                first = second = ("a", 1)
                limit: int = 3
                bare: int

                class Config:
                    def verify(self):
                        supported = compute()
                        supported = ["llama", "qwen"]
                        self.other = [1]
            """
        }
    )
    assert view.literal("config.py", "supported") == ["llama", "qwen"]
    assert view.literal("config.py", "second") == ("a", 1)
    assert view.literal("config.py", "limit") == 3
    assert view.literal("config.py", "bare") is None
    assert view.literal("config.py", "other") is None
    assert view.literal("config.py", "absent") is None


def test_the_first_assigned_of_several_names_is_found() -> None:
    view = tree({"config.py": "new_name = compute()\nolder = 1\n"})
    assert view.find_assigned("config.py", "old_name", "new_name", "older") == "new_name"
    assert view.find_assigned("config.py", "gone") is None
    assert view.find_assigned("config.py") is None


def test_bases_are_followed_within_the_file() -> None:
    view = tree({"model.py": MODEL})
    assert view.class_bases("model.py", "Model") == {"Middle", "Sized", "Root", "ABC", "Generic"}
    assert view.class_bases("model.py", "Optional") == frozenset()
    assert view.class_bases("model.py", "Model.Inner") == {"Root", "ABC", "Generic"}
    assert view.class_bases("model.py", "Absent") == frozenset()


def test_a_class_that_inherits_from_itself_ends() -> None:
    view = tree({"loop.py": "class A(B): ...\nclass B(A):\n    def f(self): ...\n"})
    assert view.class_bases("loop.py", "A") == {"A", "B"}
    assert view.class_methods("loop.py", "A") == {"f"}
    assert view.function("loop.py", "A.g") is None


def test_methods_are_own_and_inherited_but_not_nested() -> None:
    view = tree({"model.py": MODEL})
    assert view.class_methods("model.py", "Model") == {"layers", "stream", "forward", "size", "load"}
    assert view.class_methods("model.py", "Absent") == frozenset()


def test_a_method_is_the_nearest_one() -> None:
    view = tree({"model.py": MODEL})
    forward = view.function("model.py", "Model.forward")
    assert forward is not None
    assert ast.unparse(forward) == "def forward(self):\n    return 'middle'"
    assert view.function("model.py", "Model.Inner.deep") is not None
    assert view.function("model.py", "Model.deep") is None
    assert view.function("model.py", "forward") is None
    assert view.function("model.py", "Absent.forward") is None


def test_the_last_definition_counts() -> None:
    view = tree({"model.py": MODEL})
    assert view.function_source("model.py", "fallback") == "def fallback(): return 2\n"


def test_a_source_keeps_decorators_and_comments_and_loses_its_indent() -> None:
    view = tree({"model.py": MODEL})
    source = view.function_source("model.py", "Model.layers")
    assert source == textwrap.dedent(
        """\
        @property
        @cached(
            size=3,
        )
        def layers(self):
            # a comment
            return (
                1,
            )
        """
    )


def test_a_source_counts_lines_as_python_does() -> None:
    # str.splitlines would also break at the form feed and at the line separator inside the string.
    text = "x = '\u2028'\r\n\x0c\r\ndef f():\r\n    return 1\r\n"
    assert tree({"odd.py": text.encode()}).function_source("odd.py", "f") == "def f():\n    return 1\n"


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True), st.integers(0, 5))
def test_every_method_of_a_chain_of_classes_is_found(names: list[str], start: int) -> None:
    classes = [f"C{index}" for index in range(len(names))]
    text = "".join(
        f"class {name}({classes[index - 1] if index else 'object'}):\n    def {method}(self): return {index}\n"
        for index, (name, method) in enumerate(zip(classes, names, strict=True))
    )
    view = tree({"chain.py": text})
    last = min(start, len(names) - 1)
    assert view.class_methods("chain.py", classes[last]) == set(names[: last + 1])
    assert view.class_bases("chain.py", classes[last]) == {"object", *classes[:last]}
    for index, method in enumerate(names[: last + 1]):
        assert (
            view.function_source("chain.py", f"{classes[last]}.{method}")
            == f"def {method}(self): return {index}\n"
        )
