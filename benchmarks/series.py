"""Long series of one-file patches, v0.16.0 to v0.17.0, against git rebase, git am -3 and quilt push."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.measure import IDENTITY, Contestant, compare, git, show
from benchmarks.workshop import BASE, FORKTOOL, ONTO, Workshop


def run(folder: Path, arguments: list[str]) -> None:
    """Print a table for each length; lengths are arguments, 300 by default."""
    workshop = Workshop(folder)
    workshop.make()
    for count in [int(word) for word in arguments] or [300]:
        _one(workshop, count)


def _one(workshop: Workshop, count: int) -> None:
    project = workshop.synthetic(count)
    plain, branch = workshop.plain, f"many-{count}"

    def on_branch() -> None:
        shutil.rmtree(plain / ".git/rebase-merge", ignore_errors=True)
        git(plain, "checkout", "--quiet", "--force", "-B", "work", branch)

    def on_tag() -> None:
        shutil.rmtree(plain / ".git/rebase-apply", ignore_errors=True)
        git(plain, "checkout", "--quiet", "--force", "-B", "work", ONTO)

    def on_base() -> None:
        git(plain, "checkout", "--quiet", "--force", "-B", "work", BASE)
        shutil.rmtree(plain / ".pc", ignore_errors=True)

    ours = "forktool rebase --dry-run"
    files = sorted(
        (workshop.folder / f"files-{count}").iterdir(), key=lambda f: int(f.name.partition("-")[0])
    )
    contestants = [
        Contestant(name=ours, command=[*FORKTOOL, "rebase", ONTO, "--dry-run"], cwd=project),
        Contestant(
            name="git rebase", command=["git", "rebase", "--quiet", "--onto", ONTO, BASE], cwd=plain, prepare=on_branch,
            environment=IDENTITY, expected=(0,),
        ),
        Contestant(
            name="git am -3", command=["git", "am", "--quiet", "-3", *map(str, files)], cwd=plain, prepare=on_tag,
            environment=IDENTITY, expected=(0,),
        ),
    ]  # fmt: skip
    if shutil.which("quilt"):
        contestants.append(
            Contestant(
                name="quilt push -a (base)",
                command=["quilt", "push", "-a", "-q"],
                cwd=plain,
                prepare=on_base,
                environment={"QUILT_PATCHES": str(project / "patchset")},
            )
        )
    samples = compare(contestants, runs=5 if count <= 500 else 3)
    goals = {"git rebase": 0.5, "git am -3": 1.0}
    count = len(files)
    show(f"{count} one-file patches, {BASE} to {ONTO}", samples, ours=ours, goals=goals)
    print(f"  forktool: {samples[ours].median / count * 1000:.1f} ms a patch")
