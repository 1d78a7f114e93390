"""The walls of the architecture, kept by reading the imports of every module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "forktool"
MODULES = sorted(ROOT.rglob("*.py"))

LAYERS = ("core", "adapters", "commands")
"""From the inside out: a module imports its own layer and those before it."""

PURE_LIBRARIES = {
    "packaging", "tree_sitter", "tree_sitter_json", "tree_sitter_python", "tree_sitter_toml", "tree_sitter_yaml",
    "unidiff",
}  # fmt: skip
"""What the core may use besides the standard library."""

IMPURE_STANDARD = {
    "asyncio", "builtins", "fcntl", "glob", "http", "logging", "multiprocessing", "os", "pathlib", "select", "shutil",
    "signal", "socket", "ssl", "subprocess", "tempfile", "urllib",
}  # fmt: skip
"""What of the standard library touches the outside, or could."""

HOMES = {
    "git": "adapters/git_repo.py",
    "github": "adapters/github.py",
    "subprocess": "adapters/process.py",
    "rich": "adapters/console.py",
}
"""A library and the one module that imports it."""


def layer(module: Path) -> str:
    first = module.relative_to(ROOT).parts[0]
    return first if first in LAYERS else "edge"


def imports(module: Path) -> Iterator[tuple[str, int]]:
    """Every imported module by its dotted name, with the line; also those inside functions, not for types only."""
    for node in _run_time_nodes(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            assert node.level == 0, f"{module}:{node.lineno}: a relative import"
            if node.module == "pathlib" and all(alias.name.startswith("Pure") for alias in node.names):
                continue  # pure paths are texts
            yield node.module, node.lineno


def _run_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _run_time_nodes(child)


def name(module: Path) -> str:
    return module.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_imports_go_one_way(module: Path) -> None:
    here = layer(module)
    if here == "edge":
        return
    allowed = set(LAYERS[: LAYERS.index(here) + 1])
    for imported, line in imports(module):
        parts = imported.split(".")
        if parts[0] == "forktool" and len(parts) > 1:
            assert parts[1] in allowed | {"errors"}, f"{name(module)}:{line}: {here} imports {imported}"


@pytest.mark.parametrize("module", [m for m in MODULES if layer(m) == "core"], ids=name)
def test_the_core_touches_nothing_outside(module: Path) -> None:
    for imported, line in imports(module):
        top = imported.split(".")[0]
        known = top in PURE_LIBRARIES or top == "forktool" or top in sys.stdlib_module_names
        assert known, f"{name(module)}:{line}: the core imports {imported}"
        assert top not in IMPURE_STANDARD or imported == "urllib.parse", (
            f"{name(module)}:{line}: the core imports {imported}"
        )
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("open", "input", "exec", "eval"), f"{name(module)}:{node.lineno}"


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_each_library_has_one_home(module: Path) -> None:
    for imported, line in imports(module):
        home = HOMES.get(imported.split(".")[0])
        assert home is None or name(module) == home, f"{name(module)}:{line}: {imported} belongs in {home}"


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_only_the_console_prints(module: Path) -> None:
    if name(module) == "adapters/console.py":
        return
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print", f"{name(module)}:{node.lineno}: print"


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_only_the_edge_ends_the_process(module: Path) -> None:
    if layer(module) == "edge" or name(module) in (
        "adapters/probe_worker.py",
        "adapters/live_agent.py",
        "adapters/guard.py",
    ):
        return
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in ("sys.exit", "exit", "os._exit"), (
                f"{name(module)}:{node.lineno}"
            )


@pytest.mark.parametrize("module", MODULES, ids=name)
def test_files_stay_small(module: Path) -> None:
    lines = module.read_text(encoding="utf-8").count("\n")
    # One self-contained script, sent as it is to machines that have nothing of forktool.
    limit = 700 if name(module) == "adapters/live_agent.py" else 450
    assert lines <= limit, f"{name(module)} has {lines} lines; split it"


def test_the_rules_see_what_they_must(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("def f():\n    import subprocess\n")
    assert list(imports(bad)) == [("subprocess", 2)]
    bad.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import git\n")
    assert [imported for imported, _line in imports(bad)] == ["typing"]
