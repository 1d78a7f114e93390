"""What a pull request's state means, and the trailers that say so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.pr_status import (
    Landed,
    Pull,
    first_containing,
    is_revert_of,
    meaning,
    pull_number,
    trailers_for,
    with_trailers,
)
from forktool.core.series import PatchName
from forktool.errors import PatchsetError
from tests.unit.test_pull_request import patch

PULL = Pull(
    number=7, url="https://github.com/o/n/pull/7", title="t", body="b", state="open", is_draft=False,
    head="me:forktool/a", head_sha="1" * 40, base="main",
)  # fmt: skip
MERGED = replace(PULL, state="merged", merge_commit="2" * 40)


@pytest.mark.parametrize(
    ("pull", "landed", "said"),
    [
        (PULL, None, "carry it"),
        (replace(PULL, is_draft=True), None, "carry it; a draft until you mark it ready"),
        (replace(PULL, refusals=("ann",)), None, "carry it; ann asks for changes"),
        (replace(PULL, state="closed"), None, "carry it; upstream closed it without merging"),
        (MERGED, Landed(tag=None), "carry it; merged, in no release yet"),
        (MERGED, Landed(tag="v2"), "in v2: it leaves the series with forktool rebase v2"),
        (
            MERGED,
            Landed(tag="v1"),
            "the base has it: forktool check, and drop it if its probe is green on v1",
        ),
        (MERGED, Landed(tag="v2", revert=9, revert_tag="v3"), "carry it; in v2, taken back by #9 (v3)"),
        (MERGED, Landed(tag=None, revert=9), "carry it; merged, then taken back by #9 before any release"),
    ],
)
def test_the_meaning_for_the_series(pull: Pull, landed: Landed | None, said: str) -> None:
    assert meaning(pull, landed, "v1") == said


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_first_tag_is_found_with_few_questions(count: int, first: int) -> None:
    tags = [f"v{number}" for number in range(count)]
    asked: list[str] = []

    def contains(tag: str) -> bool:
        asked.append(tag)
        return tags.index(tag) >= first

    assert first_containing(tags, contains) == (tags[first] if first < count else None)
    assert len(asked) <= 6


@pytest.mark.parametrize(
    ("title", "body", "is_revert"),
    [
        ('Revert "[Bugfix] Fix it (#7)" (#9)', "", True),
        ("[Bugfix] Revert it", "Reverts o/n#7", True),
        ("Undo it", "Reverts #7", True),
        ('Revert "Other (#77)"', "", False),
        ("Fix after #7", "See #7", False),
        ("Converted #7", "", False),
    ],
)
def test_reverts_are_known_by_their_words(title: str, body: str, is_revert: bool) -> None:
    assert is_revert_of(title, body, 7) is is_revert


@pytest.mark.parametrize(
    ("forwarded", "number"),
    [
        ("https://github.com/vllm-project/vllm/pull/36361", 36361),
        ("https://github.com/VLLM-Project/vllm/pull/5 (closed)", 5),
        ("https://github.com/other/vllm/pull/5", None),
        ("no", None),
    ],
)
def test_the_number_is_in_the_forwarded_trailer(forwarded: str, number: int | None) -> None:
    assert pull_number(patch(f"S\n\nBody\n\nForwarded: {forwarded}\n"), "vllm-project/vllm") == number


def trailers_of(message: str) -> list[str]:
    return [line for line in message.rstrip("\n").rpartition("\n\n")[2].split("\n") if line]


def test_trailers_are_set_in_place_and_nothing_else_changes() -> None:
    before = patch("S\n\nBody\n\nReason: r\nForwarded: no\nSigned-off-by: A <a@b>\n")
    wanted = trailers_for(MERGED, Landed(tag="v2"))
    after = with_trailers(PatchName("a"), before.text, wanted, file="a.patch")
    assert after == before.text.replace(
        b"Forwarded: no\n", b"Forwarded: https://github.com/o/n/pull/7\nApplied-Upstream: v2\n"
    )
    assert with_trailers(PatchName("a"), after, wanted, file="a.patch") == after
    taken_back = with_trailers(
        PatchName("a"), after, trailers_for(MERGED, Landed(tag="v2", revert=9)), file="a"
    )
    assert taken_back == before.text.replace(
        b"Forwarded: no\n", b"Forwarded: https://github.com/o/n/pull/7\n"
    )


def test_a_missing_trailer_comes_before_the_sign_off() -> None:
    before = patch("S\n\nBody\n\nReason: r\nSigned-off-by: A <a@b>\n")
    after = with_trailers(PatchName("a"), before.text, trailers_for(PULL, None), file="a.patch")
    assert (
        b"Reason: r\nForwarded: https://github.com/o/n/pull/7\nSigned-off-by: A <a@b>\n\ndiff --git" in after
    )


def test_a_message_without_trailers_is_refused() -> None:
    with pytest.raises(PatchsetError, match="the message has no trailers"):
        with_trailers(
            PatchName("a"), patch("S\n\nBody text\n").text, trailers_for(PULL, None), file="a.patch"
        )
