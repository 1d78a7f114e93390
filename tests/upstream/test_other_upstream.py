"""A fork of another project: six, from the package index, through init, import, rebase and drop."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest
import requests

from forktool.cli import main
from tests.support.story import Result

pytestmark = [pytest.mark.upstream, pytest.mark.xdist_group("upstream")]

OLD = 'def _import_module(name):\n    """Import module, returning the module after the last dot."""\n'
NEW = OLD.replace("after the last dot", "after the last dot, never a package above it")


@pytest.fixture
def project(index: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder; the test is skipped where the package index does not have six."""
    if requests.head(f"{index}/six/", timeout=20).status_code != requests.codes.ok:
        pytest.skip(f"the package index {index} does not have six")
    monkeypatch.chdir(tmp_path)
    (Path.home() / ".gitconfig").write_text("[user]\n\tname = T\n\temail = t@example.org\n")
    return tmp_path


def test_six_from_the_package_index(project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def run(*argv: str) -> Result:
        capfd.readouterr()
        code = main(argv)
        output = capfd.readouterr()
        return Result(code, output.out, output.err)

    started = run("init", "--package", "six", "--base", "v1.15.0")
    assert started.code == 0, started.err
    assert run("init", "--package", "six", "--base", "v1.15.0").code == 2

    assert run("apply", "tree").code == 0
    before = (project / "tree/six.py").read_text()
    assert OLD in before
    after = before.replace(OLD, NEW)
    diff = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), "a/six.py", "b/six.py"
    )
    (project / "doc.diff").write_text("".join(diff))
    adopted = run(
        "import", "doc.diff", "--name", "say-which-module", "--message", "Say which module is returned"
    )
    assert adopted.code == 0, adopted.err

    probes = project / "patchset/probes"
    probes.mkdir(exist_ok=True)
    (probes / "say-which-module.py").write_text(
        'def test_the_docstring_says_it(tree):\n    assert "never a package above it" in tree.read_text("six.py")\n'
    )
    rebased = run("rebase", "v1.16.0", "--json")
    assert rebased.code == 0, rebased.err
    assert rebased.verdicts["say-which-module"] in ("unchanged", "refreshed")
    assert 'tag = "v1.16.0"' in (project / "patchset/patchset.toml").read_text()
    assert run("apply", "tree", "--force").code == 0
    assert NEW in (project / "tree/six.py").read_text()
    assert '__version__ = "1.16.0"' in (project / "tree/six.py").read_text()

    assert run("drop", "say-which-module", "--reason", "six is read-only").code == 0
    assert run("status", "--json").document["patches"] == []
    assert (
        'evidence = [\n    "decision: six is read-only",\n]'
        in (project / "patchset/dropped.toml").read_text()
    )
