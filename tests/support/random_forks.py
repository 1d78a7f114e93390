"""A forktool project on a random world, driven through the command line in this process."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from forktool.cli import main
from tests.support.random_worlds import World, git, patch_files, write
from tests.support.story import Result

KNOWN_CODES = {0, 1, 2, 3}
"""What a command may end in here: nothing outside fails, nobody interrupts, and 255 is a bug."""


@dataclass(frozen=True, slots=True)
class Ran(Result):
    """How a command line ended, and what it was."""

    words: tuple[str, ...]


class Fork:
    """One world with upstream's repository, the patches as commits beside it, and a project that carries them."""

    def __init__(self, world: World, folder: Path, *, history: bool = False) -> None:
        self.world = world
        self.history = history
        self.folder = folder
        self.upstream = folder / "upstream.git"
        self.bare = folder / "fork.git"
        write(world, self.upstream, with_patches=False)
        write(world, self.bare, with_patches=True)
        self.texts = patch_files(self.bare, folder / "formatted")
        self.project = folder / "project"
        self.project.mkdir()
        self.start(self.project)
        for name, text in zip(world.names, self.texts, strict=True):
            (self.patchset / f"{name}.patch").write_bytes(text)
        with (self.patchset / "series").open("a") as series:
            series.writelines(f"{name}.patch\n" for name in world.names)

    @property
    def patchset(self) -> Path:
        """The patchset's folder."""
        return self.project / "patchset"

    @property
    def state(self) -> Path:
        """The state's folder."""
        return self.project / ".forktool"

    @property
    def conflict(self) -> Path:
        """The work tree of a stop."""
        return self.state / "conflict"

    @property
    def names(self) -> list[str]:
        """The series as it is now."""
        lines = (self.patchset / "series").read_text().splitlines()
        return [line.removesuffix(".patch") for line in lines if line and not line.startswith("#")]

    def start(self, project: Path) -> None:
        """An empty patchset on the base that asks for no probe."""
        started = self.run("init", "--repository", str(self.upstream), "--base", "v1.0", project=project)
        assert started.code == 0, started.err
        config = project / "patchset/patchset.toml"
        text = config.read_text() + "\n[policy]\nprobe = false\nreason = false\nsigned-off-by = false\n"
        if self.history:
            text = text.replace('sources = ["git"]', 'sources = ["git"]\nhistory = "full"')
        config.write_text(text)

    def run(self, *words: str, project: Path | None = None) -> Ran:
        """Run forktool; whatever is no answer of a kind that the design names is a failure."""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([*words, "--patchset", str((project or self.project) / "patchset")])
        ran = Ran(int(code), out.getvalue(), err.getvalue(), words)
        if ran.code not in KNOWN_CODES:
            logs = sorted(((project or self.project) / ".forktool/logs").glob("bug-*"))
            raise AssertionError(f"{ran}\n{logs[-1].read_text() if logs else ''}")
        return ran

    def snapshot(self, project: Path | None = None) -> dict[str, bytes]:
        """Every file of the patchset."""
        root = (project or self.project) / "patchset"
        return {
            str(file.relative_to(root)): file.read_bytes()
            for file in sorted(root.rglob("*"))
            if file.is_file()
        }

    def state_files(self) -> dict[str, bytes]:
        """What the state remembers besides upstream's repository, caches and logs."""
        found = {}
        for file in sorted(self.state.rglob("*")):
            top = file.relative_to(self.state).parts[0]
            if file.is_file() and top not in ("upstream.git", "logs", "lock", "index", "history"):
                found[str(file.relative_to(self.state))] = file.read_bytes()
        return found

    def clone(self, name: str) -> Path:
        """The patchset alone in another project, as a colleague has it."""
        project = self.folder / name
        project.mkdir()
        shutil.copytree(self.patchset, project / "patchset")
        return project

    def series_commits(self, project: Path | None = None) -> list[tuple[str, str]]:
        """Commit and tree of each patch as `apply` writes them, oldest first."""
        target = self.folder / "applied"
        force = ["--force"] if target.exists() else []
        applied = self.run("apply", str(target), *force, project=project)
        assert applied.code == 0, applied.err
        listed = git(target, "log", "--reverse", "--format=%H %T", "refs/forktool/base..HEAD").decode()
        return [(line.split()[0], line.split()[1]) for line in listed.splitlines()]

    def tree_by_am(self, tag: str) -> str:
        """The tree that plain `git am` makes of the series on a tag."""
        work = self.folder / "am"
        if work.exists():
            shutil.rmtree(work)
        git(self.folder, "clone", "--quiet", "--no-checkout", str(self.bare), str(work))
        git(work, "checkout", "--quiet", "--detach", tag)
        for name in self.names:
            git(work, "am", "--quiet", "--keep-non-patch", "--keep-cr", "--no-scissors",
                str(self.patchset / f"{name}.patch"))  # fmt: skip
        return git(work, "rev-parse", "HEAD^{tree}").decode().strip()

    def unmerged(self) -> dict[bytes, set[int]]:
        """The conflicted paths of the work tree, with their stages."""
        found: dict[bytes, set[int]] = {}
        for line in git(self.conflict, "ls-files", "--unmerged", "-z").split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                found.setdefault(path, set()).add(int(head.split()[2]))
        return found

    def settle(self, how: str, *, add: bool = True) -> bool:
        """Settle every conflicted path by hand; whether all of them were texts with markers.

        Args:
            how: `both` keeps both sides, `ours` and `theirs` one, `gone` removes the file, `own` writes another text.
            add: tell git so.
        """
        all_texts = True
        for raw in self.unmerged():
            path = Path(str(self.conflict)) / raw.decode("utf-8", "surrogateescape")
            is_text = path.is_file() and not path.is_symlink() and b"<<<<<<< " in path.read_bytes()
            all_texts = all_texts and is_text
            if how == "gone":
                path.unlink(missing_ok=True)
            elif is_text:
                path.write_bytes(settled(path.read_bytes(), how))
            elif path.is_symlink() or not path.exists():
                path.unlink(missing_ok=True)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(b"settled\n")
            elif path.is_file() and how == "own":
                path.write_bytes(path.read_bytes() + b"settled\n")
        if add:
            git(self.conflict, "add", "--all", "--force")
        return all_texts


_REGION = re.compile(
    rb"^<<<<<<< [^\n]*\n(.*?)^\|\|\|\|\|\|\| [^\n]*\n.*?^=======\r?\n(.*?)^>>>>>>> [^\n]*(?:\n|\Z)",
    re.DOTALL | re.MULTILINE,
)


def settled(text: bytes, how: str) -> bytes:
    """A conflicted text without markers: `both` sides, `ours`, `theirs`, or `own` words."""

    def chosen(match: re.Match[bytes]) -> bytes:
        ours, theirs = match[1], match[2]
        return {"ours": ours, "theirs": theirs, "own": b"own = words\n"}.get(how, ours + theirs)

    return _REGION.sub(chosen, text)
