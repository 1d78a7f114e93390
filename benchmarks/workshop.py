"""What the benchmarks work on: real vLLM trees in a plain git repository, and a project beside it."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import git

ROOT = Path(__file__).parents[1]
BASE, ONTO = "v0.16.0", "v0.17.0"
FORKTOOL = (sys.executable, "-m", "forktool")
_DEFINED = re.compile(r"^ *(?:async )?(?:def|class) (\w+)", re.MULTILINE)
_SIMPLE = re.compile(r"^( *)([a-z_]+) = ([^(\[{#\"']+)$")


class Workshop:
    """A folder with `project/` (this repository's patchset), `plain/` (a git clone of the same trees)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        self.plain = folder / "plain"
        self.tree = folder / "tree"

    def make(self) -> None:
        """Fetch both releases and lay everything out; takes a minute the first time."""
        if not (self.project / "patchset").is_dir():
            shutil.copytree(ROOT / "patchset", self.project / "patchset")
        self._forktool("rebase", ONTO, "--dry-run")
        if not self.plain.is_dir():
            self._clone()

    def _forktool(self, *args: str) -> None:
        subprocess.run(
            [*FORKTOOL, "--quiet", *args], cwd=self.project, check=False, stdout=subprocess.DEVNULL
        )

    def _clone(self) -> None:
        store = self.project / ".forktool" / "upstream.git"
        applied = self.folder / "applied"
        subprocess.run([*FORKTOOL, "--quiet", "apply", applied], cwd=self.project, check=True)
        git(self.folder, "clone", "--quiet", str(applied), str(self.plain))
        refs = git(store, "for-each-ref", "--format=%(refname)", "refs/forktool/upstream").splitlines()
        for tag in (BASE, ONTO):
            ref = next(ref for ref in refs if ref.endswith(f"/{tag}"))
            git(self.plain, "fetch", "--quiet", "--force", str(store), f"{ref}:refs/tags/{tag}")
        git(self.plain, "branch", "series", "origin/forktool")

    def _later(self, path: str) -> str:
        """A file as the later release has it, "" where it has none."""
        shown = subprocess.run(
            ["git", "show", f"{ONTO}:{path}"], cwd=self.plain, capture_output=True, check=False
        )
        return shown.stdout.decode("utf-8", "surrogateescape")

    def synthetic(self, count: int, *, seed: int = 7) -> Path:
        """A project with at most `count` patches on the base, each a one-line edit of a file of its own.

        As many as files of the base have such a line; also the branch `many-COUNT`.
        """
        project = self.folder / f"many-{count}"
        branch = f"many-{count}"
        if project.is_dir():
            return project
        git(self.plain, "checkout", "--quiet", "--force", "-B", branch, BASE)
        files = sorted(
            path
            for path in (self.plain / "vllm").rglob("*.py")
            if path.stat().st_size > 400 and "third_party" not in path.parts
        )
        chosen = random.Random(seed)
        chosen.shuffle(files)
        patches = project / "patchset"
        patches.mkdir(parents=True)
        made = 0
        later: dict[str, str] = {}
        for number, file in enumerate(files * (1 + count // len(files))):
            if made == count:
                break
            path = file.relative_to(self.plain).as_posix()
            if path not in later:
                later[path] = self._later(path)
            if not _edit(file, number, later[path]):
                continue
            made += 1
            message = f"Edit {made}\n\nReason: a benchmark\nSigned-off-by: bench <bench@example.org>\n"
            git(self.plain, "commit", "--quiet", "--all", "--message", message)
        git(self.plain, "checkout", "--quiet", "--force", "--detach", BASE)
        shutil.copy(self.project / "patchset/patchset.toml", patches)
        output = self.folder / f"files-{count}"
        flags = (
            "--keep-subject", "--full-index", "--binary", "--zero-commit", "--no-signature", "--no-stat",
            "--no-numbered", "--quiet", "--output-directory",
        )  # fmt: skip
        git(self.plain, "format-patch", *flags, str(output), f"{BASE}..{branch}")
        names = []
        for number, file in enumerate(
            sorted(output.iterdir(), key=lambda f: int(f.name.partition("-")[0])), 1
        ):
            shutil.copy(file, patches / f"edit-{number}.patch")
            names.append(f"edit-{number}.patch\n")
        (patches / "series").write_text("".join(names))
        (project / ".forktool").symlink_to(self.project / ".forktool")
        return project


def _stays(lines: list[str], at: int, later: str) -> bool:
    """Whether the lines around are in the later release too, below the definition that they are below now."""
    around = "\n".join(lines[max(0, at - 4) : at + 5])
    if later.count(around) != 1:
        return False
    defined = _DEFINED.findall("\n".join(lines[:at]))
    return defined[-1:] == _DEFINED.findall(later[: later.index(around) + len(around) // 2])[-1:]


def _edit(file: Path, number: int, later: str) -> bool:
    """Change one assignment in a file, each time another one, whose lines around are in the later release too."""
    lines = file.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    places = [at for at, line in enumerate(lines) if _SIMPLE.match(line) and _stays(lines, at, later)]
    if not places:
        return False
    at = places[number % len(places)]
    match = _SIMPLE.match(lines[at])
    if match is None:
        return False
    lines[at] = f"{match[1]}{match[2]} = ({match[3].rstrip()})"
    file.write_text("\n".join(lines), encoding="utf-8", errors="surrogateescape")
    return True
