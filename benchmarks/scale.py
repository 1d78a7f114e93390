"""How forktool grows: long series, wide patches, large files and long histories, against git rebase and git am.

`python -m benchmarks scale [series | commands | wide | large | history] …`: minutes each and gigabytes of disk, so it
runs only when it is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import IDENTITY, Contestant, Sample, compare, git, show
from benchmarks.synthetic import BASE, ONTO, Scene, Synthetic
from benchmarks.workshop import FORKTOOL

_RUNS = {1000: 3, 5000: 1}
"""Patches of a series, and how often each contestant runs: git takes a minute and more for the long one."""
_DRY, _WRITES = "forktool rebase --dry-run", "forktool rebase"


def run(folder: Path, arguments: list[str]) -> None:
    """Print what is asked for, or everything."""
    parts: dict[str, Callable[[Path], None]] = {
        "series": _series,
        "commands": _commands,
        "wide": _wide,
        "large": _large,
        "history": _history,
    }
    unknown = [name for name in arguments if name not in parts]
    if unknown:
        raise SystemExit(f"no scale benchmark is called {unknown[0]}; there are: {', '.join(parts)}")
    for name in arguments or parts:
        parts[name](folder / "scale")


def _made(folder: Path, name: str, scene: Scene) -> Synthetic:
    """A scene with the upstream fetched, which is not what is measured."""
    synthetic = Synthetic(folder=folder / name, scene=scene)
    synthetic.make()
    fetch = Contestant(name="fetch", command=[*FORKTOOL, "status", "--onto", ONTO], cwd=synthetic.project)
    if not (synthetic.project / ".forktool").is_dir():
        compare([fetch], runs=1, warm_up=False)
    return synthetic


def _contestants(synthetic: Synthetic, *, expected: int = 0) -> list[Contestant]:
    plain, project = synthetic.plain, synthetic.project
    kept = synthetic.folder / "patchset"
    if not kept.is_dir():
        shutil.copytree(project / "patchset", kept)

    def fresh() -> None:
        shutil.rmtree(project / "patchset")
        shutil.copytree(kept, project / "patchset")

    def at(revision: str) -> Callable[[], None]:
        def prepare() -> None:
            for state in ("rebase-merge", "rebase-apply"):
                shutil.rmtree(plain / ".git" / state, ignore_errors=True)
            git(plain, "checkout", "--quiet", "--force", "-B", "work", revision)
            git(plain, "clean", "--quiet", "--force", "-d", "-x")

        return prepare

    ours = [*FORKTOOL, "--quiet", "rebase", ONTO]
    return [
        Contestant(
            name=_DRY, command=[*ours, "--dry-run"], cwd=project, prepare=fresh, expected=(expected,)
        ),
        Contestant(name=_WRITES, command=ours, cwd=project, prepare=fresh, expected=(expected,)),
        Contestant(
            name="git rebase", command=["git", "rebase", "--quiet", "--onto", ONTO, BASE], cwd=plain,
            prepare=at("series"), environment=IDENTITY,
        ),
        Contestant(
            name="git am -3", command=["git", "am", "--quiet", "-3", *synthetic.mails], cwd=plain,
            prepare=at(ONTO), environment=IDENTITY,
        ),
    ]  # fmt: skip


def _series(folder: Path) -> None:
    by_length: dict[int, dict[str, Sample]] = {}
    for count, runs in _RUNS.items():
        synthetic = _made(folder, f"series-{count}", Scene(patches=count, moved=count // 200))
        by_length[count] = compare(_contestants(synthetic), runs=runs, warm_up=False)
        show(f"{count} patches on 10,000 files, {count // 200} moved upstream", by_length[count], ours=_DRY)
    _show_growth(by_length)


def _show_growth(by_length: dict[int, dict[str, Sample]]) -> None:
    short, long = by_length.values()
    few, many = by_length
    print(f"\n  {'processor ms a patch':<32} {few:>8} {many:>8}   growth")
    for name in short:
        low, high = short[name].cpu_median / few * 1000, long[name].cpu_median / many * 1000
        print(f"  {name:<32} {low:>8.2f} {high:>8.2f}   {high / low:.2f}x")


def _commands(folder: Path) -> None:
    """Every other command that touches each patch."""
    by_length: dict[int, dict[str, Sample]] = {}
    for count, runs in _RUNS.items():
        synthetic = _made(folder, f"series-{count}", Scene(patches=count, moved=count // 200))
        by_length[count] = compare(_other_commands(synthetic), runs=runs, warm_up=False)
        show(f"Other commands, {count} patches", by_length[count], ours="check")
    _show_growth(by_length)


def _other_commands(synthetic: Synthetic) -> list[Contestant]:
    project, folder = synthetic.project, synthetic.folder
    applied, empty = folder / "applied", folder / "empty"

    def gone(path: Path) -> Callable[[], None]:
        return lambda: shutil.rmtree(path, ignore_errors=True)

    def without_patches() -> None:
        shutil.rmtree(empty, ignore_errors=True)
        (empty / "patchset").mkdir(parents=True)
        (empty / "patchset" / "series").touch()
        shutil.copy(project / "patchset/patchset.toml", empty / "patchset")
        (empty / ".forktool").symlink_to(project / ".forktool")

    commands: list[tuple[str, list[str | Path], Path, Callable[[], None]]] = [
        ("check", ["check"], project, lambda: None),
        ("status", ["status"], project, lambda: None),
        ("status --onto", ["status", "--onto", ONTO], project, lambda: None),
        ("apply", ["apply", applied], project, gone(applied)),
        ("export", ["export", applied], project, lambda: None),
        ("import", ["import", folder / "mails"], empty, without_patches),
    ]
    return [
        Contestant(name=name, command=[*FORKTOOL, "--quiet", *command], cwd=cwd, prepare=prepare)
        for name, command, cwd, prepare in commands
    ]


def _wide(folder: Path) -> None:
    synthetic = _made(folder, "wide", Scene(patches=0, wide=2000))
    samples = compare(_contestants(synthetic), runs=3, warm_up=False)
    show("One patch that touches 2,000 files of 10,000", samples, ours=_DRY)


def _large(folder: Path) -> None:
    size = 500_000
    scenes = {
        "a 50 MB text that both sides edit": Scene(patches=10, large=("package/table.csv", size)),
        "50 MB of Python that both sides edit": Scene(patches=10, large=("package/table.py", size)),
        "a 50 MiB binary file, added and then edited": Scene(patches=10, binary=50),
    }
    for title, scene in scenes.items():
        name = "large-binary" if scene.large is None else f"large-{scene.large[0].rpartition('.')[2]}"
        synthetic = _made(folder, name, scene)
        show(f"Ten patches, and {title}", compare(_contestants(synthetic), runs=3, warm_up=False), ours=_DRY)


def _history(folder: Path) -> None:
    synthetic = _made(folder, "history", Scene(patches=300, commits=30_000))
    contestants = _contestants(synthetic)
    project, plain = synthetic.project, synthetic.plain

    def unread() -> None:
        contestants[0].prepare()
        shutil.rmtree(project / ".forktool/history", ignore_errors=True)

    cold = Contestant(
        name=f"{_DRY}, history unread", command=contestants[0].command, cwd=project, prepare=unread
    )
    # Without --onto, git looks for the patches among upstream's commits too: --reapply-cherry-picks in git-rebase(1).
    asks = Contestant(
        name="git rebase, asks history", command=["git", "rebase", "--quiet", ONTO], cwd=plain,
        prepare=contestants[2].prepare, environment=IDENTITY,
    )  # fmt: skip
    samples = compare([cold, *contestants, asks], runs=3, warm_up=False)
    show("300 patches, 30,000 commits between base and tag", samples, ours=_DRY)
