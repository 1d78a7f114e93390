"""The table of verdicts, for a short series and a long one."""

from __future__ import annotations

from forktool.core.objects import Person
from forktool.core.report import verdict_table
from forktool.core.series import Patch, PatchName
from forktool.core.verdict import Outcome, Verdict

WHO = Person(name="A", email="a@example.org", when="0 +0000")


def shown(patches: int, tags: int) -> list[list[str]]:
    series = [
        Patch(name=PatchName(f"p{number}"), author=WHO, message="change\n", files=(), text=b"")
        for number in range(patches)
    ]
    outcomes = {patch.name: Outcome(name=patch.name, verdict=Verdict.UNCHANGED) for patch in series}
    table = {f"v{number}": outcomes for number in range(tags)}
    return [[text for text, _verdict in row] for row in verdict_table(series, table)]


def test_a_short_series_has_a_row_for_each_tag() -> None:
    assert shown(2, 1) == [["", "p0", "p1"], ["v0", "unchanged", "unchanged"]]
    assert [row[0] for row in shown(8, 3)] == ["", "v0", "v1", "v2"]


def test_a_long_series_has_a_row_for_each_patch() -> None:
    rows = shown(9, 2)
    assert rows[0] == ["", "v0", "v1"]
    assert rows[1] == ["p0", "unchanged", "unchanged"]
    assert len(rows) == 10


def test_more_tags_than_patches_are_rows_in_any_case() -> None:
    assert [row[0] for row in shown(9, 9)][1:] == [f"v{number}" for number in range(9)]
