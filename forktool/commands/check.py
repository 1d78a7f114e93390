"""`forktool check`: prove the series. Lint, lossless round trip, probes red and green on the base."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from forktool.adapters.git_format import format_patches
from forktool.adapters.git_store import GitStore
from forktool.adapters.patchset_files import PROBES, Patchset
from forktool.adapters.probes import Probes
from forktool.adapters.upstream import Upstream
from forktool.commands.base import base_tree
from forktool.commands.project import Project
from forktool.commands.replaying import Replayer
from forktool.commands.series_commits import commits_on_base
from forktool.core.apply import Change, apply_patch
from forktool.core.mail import unsafe_lines
from forktool.core.series import Patch, PatchName
from forktool.core.trailers import first_value, values
from forktool.core.tree import Overlay, SourceTree
from forktool.core.verdict import Choice, Decision, ProbeColour
from forktool.errors import ExitCode


class ProblemKind(StrEnum):
    """What a check can find."""

    MESSAGE = "message"
    SIGN_OFF = "sign-off"
    REASON = "reason"
    PROBE = "probe"
    SERIES = "series"
    DUPLICATE = "duplicate"
    ROUND_TRIP = "round-trip"


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One thing that is not as it must be. `patch` is None for the series as a whole."""

    patch: PatchName | None
    kind: ProblemKind
    detail: str


def check(project: Project, *, names: Sequence[str]) -> ExitCode:
    """Prove the series.

    Args:
        project: the project.
        names: ask only these patches' probes; all when empty.

    Returns:
        DONE, or NO when something is not as it must be.

    Raises:
        PatchsetError: a patch is malformed or does not apply to the base.
        RequestError: no such patch.
    """
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        misread = _misread(patchset.series.patches)
        chosen = [patchset.series.find(name) for name in names] or list(patchset.series.patches)
        problems = [*lint(patchset)]
        with project.upstream(patchset, store) as upstream:
            problems += _round_trip(patchset, store, upstream)
            asked, found = _ask_probes(patchset, store, upstream, project.probes(patchset), chosen)
            problems += found
    _show(project, patchset, problems, asked, misread)
    return ExitCode.NO if problems else ExitCode.DONE


def lint(patchset: Patchset) -> Iterator[Problem]:
    """What can be said without any tree."""
    policy = patchset.config.policy
    for patch in patchset.series.patches:
        name = patch.name
        for line in unsafe_lines(patch.message):
            yield Problem(
                patch=name, kind=ProblemKind.MESSAGE, detail=f"line {line.line}: {line.reason}: {line.text!r}"
            )
        if policy.reason and not first_value(patch.trailers, "Reason"):
            yield Problem(
                patch=name, kind=ProblemKind.REASON, detail="no `Reason:` trailer says why it is carried"
            )
        if policy.signed_off_by and not values(patch.trailers, "Signed-off-by"):
            yield Problem(patch=name, kind=ProblemKind.SIGN_OFF, detail="no `Signed-off-by:` trailer")
        if policy.probe and name not in patchset.probes:
            yield Problem(patch=name, kind=ProblemKind.PROBE, detail=f"no probe {PROBES}/{name}.py")
    yield from _strays(patchset)
    yield from _duplicates(patchset.series.patches)


def _strays(patchset: Patchset) -> Iterator[Problem]:
    listed = set(patchset.series.names)
    for folder, pattern in ((patchset.path, "*.patch"), (patchset.path / PROBES, "*.py")):
        for file in sorted(folder.glob(pattern)) if folder.is_dir() else ():
            if file.stem not in listed and file.stem != "conftest":
                relative = file.relative_to(patchset.path)
                yield Problem(
                    patch=None,
                    kind=ProblemKind.SERIES,
                    detail=f"{relative} belongs to no patch",
                )


def _duplicates(patches: Iterable[Patch]) -> Iterator[Problem]:
    seen: dict[object, PatchName] = {}
    for patch in patches:
        hunks = tuple((file.new_path, tuple(hunk.lines for hunk in file.hunks)) for file in patch.files)
        for key, what in (
            (("diff", hunks), "the same change"),
            (("subject", patch.subject), "the same subject"),
        ):
            first = seen.setdefault(key, patch.name)
            if first != patch.name:
                yield Problem(patch=patch.name, kind=ProblemKind.DUPLICATE, detail=f"{what} as {first}")


def _round_trip(patchset: Patchset, store: GitStore, upstream: Upstream) -> Iterator[Problem]:
    """The commits that the files make must make the same files again."""
    base = patchset.series.base
    commits = commits_on_base(patchset, store, upstream.commit(base.tag), base_tree(upstream, patchset))
    store.quarantine(commits.objects)
    files = format_patches(store, commits.base, commits.tip)
    for patch, text in zip(patchset.series.patches, files, strict=True):
        if text != patch.text:
            line = _first_difference(patch.text, text)
            yield Problem(
                patch=patch.name,
                kind=ProblemKind.ROUND_TRIP,
                detail=f"line {line} is not what git format-patch writes; forktool import makes it so",
            )


def _first_difference(left: bytes, right: bytes) -> int:
    pairs = zip(left.split(b"\n"), right.split(b"\n"), strict=False)
    same = next((number for number, (one, other) in enumerate(pairs, 1) if one != other), None)
    return same or min(left.count(b"\n"), right.count(b"\n")) + 1


def _ask_probes(
    patchset: Patchset, store: GitStore, upstream: Upstream, probes: Probes, chosen: Sequence[Patch]
) -> tuple[int, list[Problem]]:
    """Red on the bare base, green on the patched one, red again without just that patch."""
    bare = base_tree(upstream, patchset)
    patched = Overlay(bare, label=f"{bare.label} with the series")
    changes = {
        patch.name: apply_patch(patch, patched, file=str(patchset.file(patch.name)))
        for patch in patchset.series.patches
    }
    names = [patch.name for patch in chosen if patch.name in patchset.probes]
    without = {name: _without(patchset, store, probes, bare, patched, changes, name) for name in names}
    trees: list[tuple[PatchName, SourceTree]] = []
    for name in names:
        left_out = without[name]
        trees += [(name, bare), (name, patched), *([(name, left_out)] if left_out is not None else [])]
    answers = probes.run(trees)
    problems: list[Problem] = []

    def expect(name: PatchName, tree: SourceTree, colour: ProbeColour, where: str) -> None:
        answer = answers[name, tree]
        if answer.colour is not colour:
            why = f": {answer.detail}" if answer.detail else ""
            problems.append(
                Problem(
                    patch=name,
                    kind=ProblemKind.PROBE,
                    detail=f"{answer.colour} {where}, must be {colour}{why}",
                )
            )

    for name in names:
        expect(name, bare, ProbeColour.RED, "on the bare base")
        expect(name, patched, ProbeColour.GREEN, "on the patched base")
        left_out = without[name]
        if left_out is not None:
            expect(name, left_out, ProbeColour.RED, "with this one patch left out")
    return len(trees), problems


def _without(
    patchset: Patchset,
    store: GitStore,
    probes: Probes,
    bare: SourceTree,
    patched: Overlay,
    changes: dict[PatchName, tuple[Change, ...]],
    name: PatchName,
) -> SourceTree | None:
    """The patched base without one patch; None where others cannot be carried without it."""
    mine = {change.path for change in changes[name]}
    others = {change.path for other, made in changes.items() if other != name for change in made}
    if not mine & others:
        tree = Overlay(patched, label=f"{bare.label} without {name}")
        for change in changes[name]:
            tree.set(change.path, change.before, bare.read(change.path))
        return tree
    left_out = Decision(choice=Choice.DROP, reason="left out")
    replayed = Replayer(patchset, bare, store, probes).replay([bare], decisions={name: left_out})[0]
    return replayed.result if replayed.is_complete else None


def _misread(patches: Iterable[Patch]) -> dict[PatchName, str]:
    """Patches that another reader sees differently. No problem of the series: git is the judge."""
    from forktool.core.second_reading import misreading

    found = ((patch.name, misreading(patch)) for patch in patches)
    return {name: detail for name, detail in found if detail is not None}


def _show(
    project: Project,
    patchset: Patchset,
    problems: Sequence[Problem],
    asked: int,
    misread: Mapping[PatchName, str],
) -> None:
    console, base = project.console, patchset.series.base
    console.document(
        {
            "base": base.tag,
            "ok": not problems,
            "problems": [
                {"patch": problem.patch, "kind": problem.kind.value, "detail": problem.detail}
                for problem in problems
            ],
            "misread": [{"patch": name, "detail": detail} for name, detail in misread.items()],
        }
    )
    for name, detail in misread.items():
        console.warning(f"{name}: unidiff, which review tools read patches with, misreads it: {detail}")
    for problem in problems:
        console.answer(f"{problem.patch or patchset.path}: {problem.kind}: {problem.detail}")
    count = len(patchset.series.patches)
    found = f"{len(problems)} {'problem' if len(problems) == 1 else 'problems'}" if problems else "no problem"
    console.answer(
        f"{count} {'patch' if count == 1 else 'patches'} on {base.tag}, {asked} probe runs: {found}"
    )
