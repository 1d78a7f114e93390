from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forktool.core.absorption import absorbed_fact
from forktool.core.history import Absorber, Commit, FileMarks, History, Sign, inverse, patch_marks, run_marks
from forktool.core.history_log import dump_commits, load_commits, parse_marks, parse_messages
from forktool.core.history_message import read_claims, read_message, same_subject
from forktool.core.objects import Oid
from forktool.core.series import Patch, PatchName, parse_patch
from forktool.core.verdict import AbsorbedFact, ContentFact, Facts, MergeKind, ProbeColour, Verdict, judge

DIFF = """\
diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@
 one = 1
-two = 2
+two = "two"
 three = 3
@@ -11,2 +11,3 @@
 eleven = 11
+eleven_and_a_half = 11.5
 twelve = 12
"""
TEN = [b"-ten = 10\n", b"+ten = 'ten'\n"]


def patch(message: str = "A change\n", diff: str = DIFF) -> Patch:
    subject, _, rest = message.partition("\n")
    head = (
        f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nFrom: A <a@example.org>\n"
        f"Date: Thu, 1 Jan 2026 00:00:00 +0000\nSubject: {subject}\n\n{rest.strip()}\n\n"
    )
    return parse_patch(PatchName("p"), (head + diff).encode(), file="p.patch")


def commit(number: int, message: str, *marks: FileMarks, parents: tuple[int, ...] = ()) -> Commit:
    return Commit(
        oid=oid(number),
        parents=tuple(oid(parent) for parent in parents),
        message=read_message(message),
        marks=marks,
    )


def oid(number: int) -> Oid:
    return Oid(f"{number:07x}" + "f" * 33)


def found(history: History, message: str = "A change\n") -> list[tuple[Oid, Sign]]:
    return [(one.oid, one.sign) for one in history.absorbers(patch(message))]


WHOLE = patch_marks(patch().files)


def back(marks: FileMarks) -> FileMarks:
    return FileMarks(path=marks.path, whole=inverse(marks.whole), runs=tuple(map(inverse, marks.runs)))


def test_ids_ignore_white_space_context_and_line_numbers() -> None:
    one = run_marks("a", [b" context\n", *TEN, b" more\n"])
    other = run_marks("a", [b"@", b"-ten  =  10\n", b"+ten='ten'\n", b"+\n"])
    assert one == other
    assert len(one.runs) == 1
    assert run_marks("a", [b"+}\n"]).runs == ()
    assert run_marks("a", [b"-b\n", b"+ab\n"]) != run_marks("a", [b"-ab\n", b"+b\n"])


@given(st.lists(st.sampled_from([b"-one\n", b"+two\n", b" ctx\n", b"+three\n", b"-four\n"]), max_size=12))
def test_the_inverse_of_a_diff_has_the_inverse_ids(lines: list[bytes]) -> None:
    swap = {b"-": b"+", b"+": b"-", b" ": b" "}
    marks = run_marks("a", lines)
    undone = run_marks("a", [swap[line[:1]] + line[1:] for line in lines])
    assert undone.runs == tuple(map(inverse, marks.runs))
    assert tuple(map(inverse, undone.runs)) == marks.runs


def test_the_same_change_is_found_whatever_else_the_commit_does() -> None:
    (marks,) = WHOLE
    more = FileMarks(path="a.py", whole="x-y", runs=("u-v", *marks.runs))
    history = History(
        commits=(
            commit(3, "Half", FileMarks(path="a.py", whole=marks.runs[0], runs=marks.runs[:1])),
            commit(2, "And more", FileMarks(path="b.py", whole="q-r", runs=("q-r",)), more),
            commit(1, "Elsewhere", FileMarks(path="c.py", whole=marks.whole, runs=marks.runs)),
        )
    )
    assert found(history) == [(oid(2), Sign.PATCH_ID)]


@pytest.mark.parametrize(
    ("message", "trailer"),
    [
        ("Support ten (#361)", "Forwarded: https://github.com/acme/tool/pull/361"),
        ("Merge pull request #361 from ann/ten", "Origin: #361"),
        ("[Backport] Support ten (#361) (#400)", "Applied-Upstream: acme/tool#361"),
        (
            "Support ten\n\nFixes: #361\nSigned-off-by: A <a@example.org>",
            "Bug: https://github.com/acme/tool/issues/361",
        ),
    ],
)
def test_the_pull_request_is_found_by_its_number(message: str, trailer: str) -> None:
    history = History(commits=(commit(1, message),), repository="https://github.com/acme/tool.git")
    assert found(history, f"Mine\n\n{trailer}\n") == [(oid(1), Sign.PULL_REQUEST)]
    assert found(history, "Mine (#361)\n") == [(oid(1), Sign.PULL_REQUEST)]


@pytest.mark.parametrize(
    "message",
    [
        'Revert "Support ten (#361)" (#400)',
        "Undo ten (#400)\n\nReverts acme/tool#361",
        "Prepare for #361",
        "Support eleven (#36)\n\nSee #361 for the rest of it.",
        "Support ten\n\nReviewed-by: #361",
    ],
)
def test_another_commit_that_mentions_the_number_is_no_evidence(message: str) -> None:
    assert found(History(commits=(commit(1, message),)), "Mine (#361)\n") == []


def test_a_number_of_another_repository_is_no_evidence() -> None:
    history = History(commits=(commit(1, "Ten (#361)"),), repository="git@github.com:acme/tool.git")
    assert found(history, "Mine\n\nOrigin: https://github.com/other/tool/pull/361\n") == []
    assert read_claims("Mine\n\nOrigin: https://github.com/other/tool/pull/361\n", None).numbers == (361,)


def test_the_same_subject_counts_only_on_the_same_files() -> None:
    assert same_subject("[Core][Bugfix] Support  Ten (#1) (#2)") == same_subject("support ten")
    here = FileMarks(path="a.py", whole="m-n", runs=("m-n",))
    there = FileMarks(path="b.py", whole="m-n", runs=("m-n",))
    history = History(commits=(commit(2, "[Core] A change (#9)", here), commit(1, "A change", there)))
    assert found(history) == [(oid(2), Sign.SUBJECT)]


@pytest.mark.parametrize(
    "revert",
    [
        f"Revert it\n\nThis reverts commit {oid(1)}.",
        f"Revert it\n\nThis reverts commit {oid(1)[:10]}.",
        'Revert "A change (#361)" (#400)',
        "[Bugfix] Undo (#400)\n\nReverts acme/tool#361",
        f"Revert it\n\nThis reverts commit {'a' * 40}.",
    ],
)
def test_a_reverted_commit_is_no_evidence_unless_the_revert_is_reverted(revert: str) -> None:
    merged = commit(1, f"A change (#361)\n\n(cherry picked from commit {'a' * 40})", *WHOLE)
    assert found(History(commits=(merged,))) == [(oid(1), Sign.PATCH_ID)]
    assert found(History(commits=(commit(2, revert), merged))) == []
    again = commit(3, f"Again\n\nThis reverts commit {oid(2)}.")
    assert found(History(commits=(again, commit(2, revert), merged))) == [(oid(1), Sign.PATCH_ID)]


def test_a_commit_taken_back_without_a_word_is_no_evidence() -> None:
    merged = commit(1, "A change (#361)", *WHOLE)
    undone = commit(2, "Tidy up", *map(back, WHOLE))
    assert found(History(commits=(undone, merged)), "A change (#361)\n") == []
    assert found(History(commits=(commit(3, "Once more", *WHOLE), undone, merged))) == [
        (oid(3), Sign.PATCH_ID),
        (oid(1), Sign.PATCH_ID),
    ]
    half = FileMarks(path="a.py", whole="-", runs=(inverse(WHOLE[0].runs[0]),))
    assert found(History(commits=(commit(2, "Tidy up", half), merged))) == [(oid(1), Sign.PATCH_ID)]


def test_an_older_tag_has_only_what_it_reaches() -> None:
    history = History(
        commits=(
            commit(4, "Merge", parents=(3, 2)),
            commit(3, "Main", parents=(1,)),
            commit(2, "A change", *WHOLE, parents=(1,)),
            commit(1, "First", parents=(0,)),
        )
    )
    assert [one.oid for one in history.until(oid(3)).commits] == [oid(3), oid(1)]
    assert found(history.until(oid(3))) == []
    assert found(history.until(oid(4))) == [(oid(2), Sign.PATCH_ID)]


def test_the_evidence_names_commit_subject_and_number() -> None:
    (one,) = History(commits=(commit(1, "Support ten (#361)", *WHOLE),)).absorbers(patch())
    assert one.detail == f'commit {oid(1)[:12]} "Support ten" (#361): same patch-id'


def test_logs_are_read_with_any_path_and_any_line() -> None:
    first, second = oid(1), oid(2)
    log = (
        f"commit {first}\n\n"
        'diff --git "a/\\303\\244 b.py" "b/\\303\\244 b.py"\nindex 1..2 100644\n'
        '--- "a/\\303\\244 b.py"\t\n+++ "b/\\303\\244 b.py"\t\n'
        "@@ -3,2 +3 @@ def f():\n--- old = 1\n-commit this\n+++ new = 1\n\\ No newline at end of file\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\nindex 1..0\n"
        "--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-line\n"
        "diff --git a/x b/x b/x b/x\nindex aa..bb 100644\nBinary files a/x b/x and b/x b/x differ\n"
        f"commit {second}\n\ndiff --git a/mode b/mode\nold mode 100644\nnew mode 100755\n"
    ).encode()
    marks = parse_marks(log)
    assert marks[second] == ()
    assert marks[first] == (
        run_marks("ä b.py", [b"--- old = 1", b"-commit this", b"+++ new = 1"]),
        run_marks("gone", [b"-line"]),
        run_marks("x b/x", (), binary="aa-bb"),
    )


def test_commits_survive_being_kept() -> None:
    record = f"{oid(2)}\x1f{oid(1)} {oid(0)}\x1fTen (#3)\n\nThis reverts commit {oid(1)}.\n\0".encode()
    ((two, parents, message),) = parse_messages(record)
    kept = Commit(oid=two, parents=parents, message=message, marks=WHOLE)
    assert load_commits(dump_commits((kept,))) == (kept,)
    assert parents == (oid(1), oid(0))
    assert message.reverts == (oid(1),)
    assert load_commits(b"{}") is None
    assert load_commits(b'{"version": 0, "commits": []}') is None


def content(share: float, **more: int) -> ContentFact:
    return ContentFact(share=share, is_full=share == 1.0, target_gone=False, detail="x", **more)


def verdict(facts: Facts) -> Verdict:
    return judge(PatchName("p"), facts).verdict


ALL = AbsorbedFact(detail="commit", is_whole=True)
NAMED = AbsorbedFact(detail="commit", is_whole=False)


@pytest.mark.parametrize(
    ("absorbed", "there", "expected"),
    [
        (ALL, content(1.0), Verdict.ABSORBED),
        (ALL, content(0.3), Verdict.ABSORBED),
        (ALL, content(0.0, removed=2, removed_gone=2), Verdict.ABSORBED),
        (ALL, content(0.0, removed=2, removed_gone=1), Verdict.SUSPECT),
        (ALL, content(0.0), Verdict.SUSPECT),
        (ALL, None, Verdict.SUSPECT),
        (NAMED, content(0.9), Verdict.ABSORBED),
        (NAMED, content(0.6), Verdict.SUSPECT),
        (ALL, replace(content(0.0), target_gone=True), Verdict.ABSORBED),
        (NAMED, replace(content(0.0), target_gone=True), Verdict.SUSPECT),
    ],
)
def test_history_drops_a_patch_only_together_with_content(
    absorbed: AbsorbedFact, there: ContentFact | None, expected: Verdict
) -> None:
    assert verdict(Facts(merge=MergeKind.CONFLICT, absorbed=(absorbed,), content=there)) is expected
    red = Facts(merge=MergeKind.CONFLICT, absorbed=(absorbed,), content=there, probe_bare=ProbeColour.RED)
    assert verdict(red) is Verdict.SUSPECT


def test_history_and_a_merge_that_leaves_nothing_to_do_drop_a_patch() -> None:
    assert verdict(Facts(merge=MergeKind.EMPTY, absorbed=(NAMED,))) is Verdict.ABSORBED
    assert verdict(Facts(merge=MergeKind.EMPTY)) is Verdict.SUSPECT


@pytest.mark.parametrize(
    ("merge", "there", "expected"),
    [
        (MergeKind.CONFLICT, content(0.6), Verdict.SUSPECT),
        (MergeKind.CONFLICT, content(0.2, hunks=6, hunks_present=5), Verdict.SUSPECT),
        (MergeKind.CONFLICT, content(0.3, hunks=6, hunks_present=2), Verdict.CONFLICT),
        (MergeKind.RESOLVED, content(0.97), Verdict.SUSPECT),
        (MergeKind.RESOLVED, content(0.2), Verdict.RESOLVED),
        (MergeKind.CLEAN, content(0.6), Verdict.SUSPECT),
        (MergeKind.CLEAN, content(0.6, hunks=3, hunks_present=2), Verdict.PARTLY_ABSORBED),
    ],
)
def test_without_history_and_probe_a_patch_that_is_mostly_there_is_asked_about(
    merge: MergeKind, there: ContentFact, expected: Verdict
) -> None:
    assert verdict(Facts(merge=merge, content=there)) is expected
    if merge is MergeKind.CONFLICT:
        red = Facts(merge=merge, content=there, probe_bare=ProbeColour.RED)
        assert verdict(red) is Verdict.CONFLICT


def test_a_like_subject_without_like_content_is_dropped() -> None:
    one = Absorber(oid=oid(1), sign=Sign.SUBJECT, detail="commit")
    assert absorbed_fact(one, then=content(0.4), now=content(0.1)) is None
    assert absorbed_fact(one, then=content(0.6), now=None) == AbsorbedFact(detail="commit", is_whole=False)
    assert absorbed_fact(one, then=content(1.0), now=content(0.1)) == AbsorbedFact(
        detail="commit, all of it; later commits changed it", is_whole=True
    )
