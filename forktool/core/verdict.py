"""What becomes of a patch on a tree: facts in, one verdict with its evidence out.

A patch is dropped on two independent kinds of evidence, never on one. When one kind speaks alone, or two disagree,
the verdict is `suspect` and a person decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from forktool.core.findings import Finding
from forktool.core.series import PatchName


class Verdict(StrEnum):
    """The verdicts of the design, in the order in which a table lists them."""

    UNCHANGED = "unchanged"
    REFRESHED = "refreshed"
    RESOLVED = "resolved"
    ABSORBED = "absorbed"
    PARTLY_ABSORBED = "partly-absorbed"
    OBSOLETE = "obsolete"
    SUSPECT = "suspect"
    CONFLICT = "conflict"
    NOT_REACHED = "not-reached"

    @property
    def is_carried(self) -> bool:
        """Whether the patch is in the result."""
        return self in _CARRIED

    @property
    def is_dropped(self) -> bool:
        """Whether the patch left the series."""
        return self in (Verdict.ABSORBED, Verdict.OBSOLETE)

    @property
    def is_stop(self) -> bool:
        """Whether a person must look before the series goes on."""
        return self in (Verdict.SUSPECT, Verdict.CONFLICT)


_CARRIED = frozenset({Verdict.UNCHANGED, Verdict.REFRESHED, Verdict.RESOLVED, Verdict.PARTLY_ABSORBED})


class EvidenceKind(StrEnum):
    """Where evidence comes from; two kinds are independent of each other."""

    HISTORY = "history"
    CONTENT = "content"
    TARGET_GONE = "target-gone"
    PROBE = "probe"
    MERGE = "merge"
    """How the merge went; explains a verdict, never drops a patch."""
    DECISION = "decision"
    """A person said so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """One fact that bears on the verdict, in one line."""

    kind: EvidenceKind
    detail: str


class MergeKind(StrEnum):
    """How the patch met the new tree."""

    UNTOUCHED = "untouched"
    """Upstream changed none of its files."""
    CLEAN = "clean"
    EMPTY = "empty"
    """Nothing of the patch was left to do."""
    RESOLVED = "resolved"
    CONFLICT = "conflict"


class ProbeColour(StrEnum):
    """What a patch's probe says of one tree."""

    GREEN = "green"
    RED = "red"
    ABSENT = "absent"
    """There is no probe, or it skipped itself: it says nothing."""


class Choice(StrEnum):
    """What a person decided of a patch."""

    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A person's decision, with the reason given."""

    choice: Choice
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ContentFact:
    """How much of the patch the bare new tree already says, over all its paths.

    `share` is 0..1, over what carries meaning; `is_full` asks for every element. `hunks_present` counts hunks that
    the new tree has in full, `removed` and `removed_gone` what the patch removes and how much of that is gone.
    """

    share: float
    is_full: bool
    target_gone: bool
    detail: str
    hunks_present: int = 0
    hunks: int = 0
    removed: int = 0
    removed_gone: int = 0

    @property
    def is_mostly_there(self) -> bool:
        """Whether the new tree says most of the patch, by what it says or by its hunks."""
        return self.share >= MOSTLY or (self.hunks > 0 and self.hunks_present >= MOSTLY * self.hunks)


@dataclass(frozen=True, kw_only=True, slots=True)
class AbsorbedFact:
    """A commit between base and tag that absorbed the patch. `is_whole` says that it made the whole change."""

    detail: str
    is_whole: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """All that is known of one patch on one tree; no opinion."""

    merge: MergeKind
    merge_detail: str = ""
    in_place: bool = False
    content: ContentFact | None = None
    absorbed: tuple[AbsorbedFact, ...] = ()
    probe_bare: ProbeColour = ProbeColour.ABSENT
    probe_patched: ProbeColour | None = None
    """None until it ran: a verdict that carries the patch is then provisional."""
    probe_detail: str = ""
    by_hand: bool = False
    """A person settled the conflict."""
    findings: tuple[Finding, ...] = ()
    conflicts: tuple[str, ...] = ()
    decision: Decision | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The verdict of one patch on one tree, with everything that led to it."""

    name: PatchName
    verdict: Verdict
    evidence: tuple[Evidence, ...] = ()
    findings: tuple[Finding, ...] = ()
    conflicts: tuple[str, ...] = ()


MOSTLY = 0.5
"""The share of a patch's elements from which content supports a green probe: upstream words a change its own way."""
_SAME_CHANGE = 0.8
"""The share from which a commit that only names the patch's pull request is taken to have made its whole change."""
_SURVIVOR = 0.1
"""The share that must be left of a change that a commit made whole."""


def judge(name: PatchName, facts: Facts) -> Outcome:
    """The verdict of a patch.

    Args:
        name: the patch.
        facts: what was seen of it on one tree.
    """
    verdict = _verdict(facts)
    return Outcome(
        name=name,
        verdict=verdict,
        evidence=_evidence(facts, verdict),
        findings=() if verdict.is_dropped else facts.findings,
        conflicts=facts.conflicts if _is_in_conflict(facts, verdict) else (),
    )


def _is_in_conflict(facts: Facts, verdict: Verdict) -> bool:
    return verdict is Verdict.CONFLICT or (verdict is Verdict.SUSPECT and facts.merge is MergeKind.CONFLICT)


def _verdict(facts: Facts) -> Verdict:
    if facts.decision is not None:
        return _decided(facts, facts.decision)
    dropping = _dropping(facts)
    if dropping is not None:
        return dropping
    return _carrying(facts)


def _decided(facts: Facts, decision: Decision) -> Verdict:
    if decision.choice is Choice.DROP:
        return Verdict.OBSOLETE
    if facts.merge is MergeKind.EMPTY:
        return Verdict.SUSPECT
    return _carried(facts)


def _dropping(facts: Facts) -> Verdict | None:
    """Absorbed, obsolete or suspect as far as the bare tree tells, else None: the patch still matters."""
    content, probe = facts.content, facts.probe_bare
    upstream_has_it = bool(facts.absorbed) or (content is not None and content.is_full)
    target_gone = content is not None and content.target_gone
    if probe is ProbeColour.GREEN:
        if upstream_has_it or (content is not None and content.share >= MOSTLY):
            return Verdict.ABSORBED
        return Verdict.OBSOLETE if target_gone else Verdict.SUSPECT
    if upstream_has_it or facts.merge is MergeKind.EMPTY or _mostly_upstream(facts):
        if probe is ProbeColour.ABSENT and _history_and_content(facts):
            return Verdict.ABSORBED
        return Verdict.SUSPECT
    return None


def _mostly_upstream(facts: Facts) -> bool:
    """Whether most of a patch without a probe is there already, so that carrying it needs a person's word.

    A clean merge that leaves a part of the patch to do is no question: it is partly absorbed.
    """
    content = facts.content
    if content is None or facts.by_hand or facts.probe_bare is not ProbeColour.ABSENT:
        return False
    match facts.merge:
        case MergeKind.CONFLICT | MergeKind.RESOLVED:
            return content.is_mostly_there
        case MergeKind.CLEAN:
            return content.is_mostly_there and not content.hunks_present
        case MergeKind.UNTOUCHED | MergeKind.EMPTY:
            return False


def _history_and_content(facts: Facts) -> bool:
    """Whether history and content agree that upstream has the patch.

    Where a commit made the whole change, it is enough that something of it is still there, that all it removed is
    still gone, or that what it edits is: the rest was changed since, not taken back. A commit that only names the same
    pull request may have edited the same lines in quite another way.
    """
    content = facts.content
    if not facts.absorbed:
        return False
    if facts.merge is MergeKind.EMPTY:
        return True
    if content is None:
        return False
    if content.share >= _SAME_CHANGE:
        return True
    still_gone = content.target_gone or 0 < content.removed == content.removed_gone
    return any(fact.is_whole for fact in facts.absorbed) and (content.share >= _SURVIVOR or still_gone)


def _carrying(facts: Facts) -> Verdict:
    if facts.merge is MergeKind.CONFLICT:
        return Verdict.CONFLICT
    if facts.findings or facts.probe_patched is ProbeColour.RED:
        settled_by_rule = facts.merge is MergeKind.RESOLVED and not facts.by_hand
        return Verdict.CONFLICT if settled_by_rule else Verdict.SUSPECT
    return _carried(facts)


def _carried(facts: Facts) -> Verdict:
    match facts.merge:
        case MergeKind.CONFLICT:
            return Verdict.CONFLICT
        case MergeKind.RESOLVED:
            return Verdict.RESOLVED
        case MergeKind.UNTOUCHED | MergeKind.CLEAN | MergeKind.EMPTY:
            pass
    content = facts.content
    if content is not None and content.hunks_present and not facts.in_place:
        return Verdict.PARTLY_ABSORBED
    return Verdict.UNCHANGED if facts.in_place else Verdict.REFRESHED


def _evidence(facts: Facts, verdict: Verdict) -> tuple[Evidence, ...]:
    found: list[Evidence] = []
    if facts.decision is not None:
        found.append(Evidence(kind=EvidenceKind.DECISION, detail=facts.decision.reason))
    found += (Evidence(kind=EvidenceKind.HISTORY, detail=fact.detail) for fact in facts.absorbed)
    content = facts.content
    if content is not None and content.target_gone:
        found.append(Evidence(kind=EvidenceKind.TARGET_GONE, detail=content.detail))
    elif content is not None and content.share > 0:
        found.append(Evidence(kind=EvidenceKind.CONTENT, detail=content.detail))
    if facts.probe_bare is ProbeColour.GREEN:
        found.append(Evidence(kind=EvidenceKind.PROBE, detail="green on the bare tree"))
    if facts.probe_patched is ProbeColour.RED:
        reason = f": {facts.probe_detail}" if facts.probe_detail else ""
        found.append(Evidence(kind=EvidenceKind.PROBE, detail=f"red on the patched tree{reason}"))
    elif facts.probe_bare is ProbeColour.RED and facts.probe_patched is ProbeColour.GREEN:
        found.append(
            Evidence(kind=EvidenceKind.PROBE, detail="red on the bare tree, green on the patched tree")
        )
    elif facts.probe_bare is ProbeColour.RED:
        found.append(Evidence(kind=EvidenceKind.PROBE, detail="red on the bare tree"))
    if facts.merge_detail and not verdict.is_dropped:
        found.append(Evidence(kind=EvidenceKind.MERGE, detail=facts.merge_detail))
    return tuple(found)
