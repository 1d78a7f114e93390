"""The real series from v0.16.0 to v0.17.0: a warm dry run against `git rebase`, and a cold run against curl and tar."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.measure import IDENTITY, Contestant, compare, git, show
from benchmarks.workshop import BASE, FORKTOOL, ONTO, Workshop


def run(folder: Path, arguments: list[str]) -> None:
    """Print both tables."""
    del arguments
    workshop = Workshop(folder)
    workshop.make()

    def back() -> None:
        shutil.rmtree(workshop.plain / ".git/rebase-merge", ignore_errors=True)
        git(workshop.plain, "checkout", "--quiet", "--force", "-B", "work", "series")

    ours = "forktool rebase --dry-run"
    samples = compare(
        [
            Contestant(name=ours, command=[*FORKTOOL, "rebase", ONTO, "--dry-run"], cwd=workshop.project),
            # Plain git stops at the first patch, in a conflict; -X theirs does all five, one of them wrongly.
            Contestant(
                name="git rebase -X theirs",
                command=["git", "rebase", "--quiet", "-X", "theirs", "--onto", ONTO, BASE],
                cwd=workshop.plain,
                prepare=back,
                environment=IDENTITY,
            ),
            Contestant(
                name="git rebase (stops)",
                command=["git", "rebase", "--quiet", "--onto", ONTO, BASE],
                cwd=workshop.plain,
                prepare=back,
                environment=IDENTITY,
                expected=(1,),
            ),
        ]
    )
    goals = {"git rebase -X theirs": 0.7}
    show("Warm rebase of the real series onto v0.17.0, whole process", samples, ours=ours, goals=goals)


def cold(folder: Path, arguments: list[str]) -> None:
    """Print the table of the cold run."""
    del arguments
    workshop = Workshop(folder)
    workshop.make()
    target, bare = folder / "cold", folder / "bare"

    def fresh() -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(workshop.project / "patchset", target / "patchset")

    def empty() -> None:
        shutil.rmtree(bare, ignore_errors=True)
        bare.mkdir()

    urls = [_sdist_url(tag) for tag in ("v0.16.0", "v0.17.0")]
    script = "".join(
        f"curl -sSfL {url} -o {number}.tgz && tar xzf {number}.tgz\n" for number, url in enumerate(urls)
    )
    ours = "forktool rebase, cold"
    samples = compare(
        [
            Contestant(name=ours, command=[*FORKTOOL, "rebase", ONTO], cwd=target, prepare=fresh),
            Contestant(name="curl + tar xzf", command=["sh", "-ec", script], cwd=bare, prepare=empty),
        ]
    )
    show(
        "Empty cache to rebased patchset, network included", samples, ours=ours, goals={"curl + tar xzf": 1.5}
    )


def _sdist_url(tag: str) -> str:
    import requests

    from forktool.adapters.package_index import index_url

    accept = {"Accept": "application/vnd.pypi.simple.v1+json"}
    files = requests.get(f"{index_url(None)}/vllm/", headers=accept, timeout=60).json()["files"]
    name = f"vllm-{tag.removeprefix('v')}.tar.gz"
    return str(next(file["url"] for file in files if file["filename"] == name))
