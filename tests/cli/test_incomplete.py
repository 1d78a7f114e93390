"""An installation that lacks a package says which."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
sys.modules["tree_sitter_python"] = None
from forktool.cli import entry_point
sys.argv = ["forktool", *sys.argv[1:]]
entry_point()
"""


def test_a_missing_package_is_named_with_what_to_type(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "--patchset", str(ROOT / "patchset"), "status"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "FORKTOOL_HOME": str(tmp_path)},
    )
    assert done.returncode == 4
    first, second = done.stderr.splitlines()
    assert first == "error: this installation is incomplete: it lacks tree_sitter_python"
    assert second.startswith(f"hint: {sys.executable} -m pip install forktool; in a clone of it: ")
