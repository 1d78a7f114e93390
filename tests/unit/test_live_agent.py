"""The script that runs on other machines: what it may be made of."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from forktool.adapters import live_agent

SOURCE = Path(live_agent.__file__).read_text(encoding="utf-8")


def test_it_is_written_in_python_3_9() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 9))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    newer = {"file_digest", "UTC", "Self", "StrEnum", "pairwise"}
    assert not newer & {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not [call for call in calls if any(word.arg == "strict" for word in call.keywords)]
    # `X | Y` at run time is new in 3.10; in annotations it is a text.
    assert isinstance(tree.body[1], ast.ImportFrom)
    assert tree.body[1].module == "__future__"
    assert not [
        call
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "isinstance"
        and isinstance(call.args[1], ast.BinOp)
    ]


def test_it_needs_nothing_but_the_standard_library() -> None:
    names = set()
    for node in ast.walk(ast.parse(SOURCE)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).partition(".")[0])
    assert names <= sys.stdlib_module_names
    assert "forktool" not in names


def test_record_keeps_every_other_line(tmp_path: Path) -> None:
    info = tmp_path / "demo-1.0.dist-info"
    info.mkdir()
    text = '"a,b.py",sha256=x,1\r\ndemo/a.py,sha256=old,1\r\ndemo/gone.py,sha256=y,1\r\ndemo-1.0.dist-info/RECORD,,'
    (info / "RECORD").write_bytes(text.encode())
    here = live_agent.Installed(str(tmp_path), info.name)
    before = tmp_path / "demo-1.0.forktool-live" / "before"
    before.mkdir(parents=True)
    entries = [
        {"path": "demo/a.py", "after": {}}, {"path": "demo/gone.py", "after": None}, {"path": "demo/n.py", "after": {}}
    ]  # fmt: skip
    edited = live_agent.edited_record(here, entries, {"demo/a.py": b"a", "demo/n.py": b""})
    assert edited.decode().split("\r\n") == [
        '"a,b.py",sha256=x,1',
        "demo/a.py,sha256=ypeBEsobvcr6wjGzmiPcTaeG7_gUfE5yuYB3ha_uSLs,1",
        "demo-1.0.dist-info/RECORD,,",
        "demo/n.py,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0",
        "demo-1.0.forktool-live/journal.json,,",
        "",
    ]
