"""Recognising a change that somebody else already works on."""

from __future__ import annotations

from forktool.core.duplicates import (
    Candidate,
    Kind,
    Wanted,
    match,
    queries,
    ranked,
    statement,
    title_words,
    wanted,
)
from tests.unit.test_pull_request import patch

SOUGHT = Wanted(
    numbers=(35966,),
    paths=("vllm/models/kimi.py", "vllm/models/deepseek.py"),
    identifiers=("SupportsEagle3", "set_aux_hidden_state_layers"),
    words=("eagle-3", "deepseek-v3", "kimi-k2"),
)


def candidate(number: int = 1, **facts: object) -> Candidate:
    known: dict[str, object] = {
        "kind": Kind.PULL,
        "title": "Something",
        "state": "open",
        "url": f"u/{number}",
    }
    return Candidate(number=number, **{**known, **facts})  # type: ignore[arg-type]


def test_a_patch_is_recognised_by_numbers_paths_names_and_words() -> None:
    diff = (
        f"diff --git a/vllm/a.py b/vllm/a.py\nindex {'1' * 40}..{'2' * 40} 100644\n--- a/vllm/a.py\n"
        "+++ b/vllm/a.py\n@@ -1,2 +1,4 @@\n existing_name = 1\n two = 2\n+def collect_layers(existing_name):\n"
        "+    return helper_value  # a comment_word\n"
    )
    message = "[Model] Support EAGLE-3 on the Kimi-K2\n\nSee #12, and https://github.com/o/n/pull/345.\n"
    found = wanted(patch(message, diff))
    assert found.numbers == (12, 345)
    assert found.paths == ("vllm/a.py",)
    assert found.identifiers == ("collect_layers", "helper_value")
    assert found.words == ("eagle-3", "kimi-k2")


def test_words_of_a_title_are_those_that_carry_meaning() -> None:
    assert title_words("[Bugfix][Model] Fix the use of EAGLE-3 with Kimi-K2.5 on MLA") == (
        "eagle-3",
        "kimi-k2.5",
        "mla",
    )


def test_the_queries_ask_for_each_sign_and_are_few() -> None:
    asked = queries(SOUGHT)
    assert asked[0] == "35966 in:title,body"
    assert '"SupportsEagle3"' in asked
    assert "eagle-3 deepseek-v3 kimi-k2 in:title" in asked
    assert '"kimi.py" in:title,body' in asked
    assert len(asked) <= 12
    assert len(set(asked)) == len(asked)


def test_the_same_files_and_names_in_other_words_are_likely() -> None:
    found = match(
        SOUGHT, candidate(title="Kimi k2.5 MLA based eagle3", body="adds SupportsEagle3", paths=SOUGHT.paths)
    )
    assert found is not None
    assert found.is_likely
    assert found.reasons == ("touches vllm/models/kimi.py, vllm/models/deepseek.py", "names SupportsEagle3")


def test_one_file_of_a_sweeping_change_is_not() -> None:
    paths = ("vllm/models/kimi.py", *(f"vllm/other_{number}.py" for number in range(50)))
    found = match(SOUGHT, candidate(title="Reformat everything", paths=paths))
    assert found is not None
    assert not found.is_likely


def test_a_named_number_is_likely_for_a_pull_request_and_never_for_an_issue() -> None:
    pull, issue = (match(SOUGHT, candidate(35966, kind=kind)) for kind in (Kind.PULL, Kind.ISSUE))
    assert pull is not None
    assert pull.is_likely
    assert issue is not None
    assert not issue.is_likely
    both = match(SOUGHT, candidate(7, body="Fixes #35966"))
    assert both is not None
    assert both.reasons == ("both name #35966",)
    assert match(SOUGHT, candidate(7, body="Fixes #359661")) is None


def test_ranking_is_by_strength_then_open_then_newest_without_our_own() -> None:
    found = ranked(
        SOUGHT,
        [
            candidate(1, body="SupportsEagle3"),
            candidate(2, body="SupportsEagle3", state="closed"),
            candidate(3, body="SupportsEagle3"),
            candidate(4, paths=SOUGHT.paths, body="SupportsEagle3"),
            candidate(5, title="Unrelated"),
            candidate(6, paths=SOUGHT.paths),
        ],
        without=[6],
    )
    assert [item.candidate.number for item in found] == [4, 3, 1, 2]


def test_the_statement_says_what_was_looked_at() -> None:
    matches = ranked(SOUGHT, [candidate(3, body="SupportsEagle3")])
    assert statement(matches, 9, None) == (
        "Duplicate search: none of 9 open and closed pull requests and issues does the same; nearest: #3."
    )
    assert statement([], 0, "it is not") == (
        "Not a duplicate: it is not (looked at 0 open and closed pull requests and issues)."
    )
