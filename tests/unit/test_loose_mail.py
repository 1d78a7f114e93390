"""Mails and headers of any make, taken apart into patches."""

from __future__ import annotations

import pytest

from forktool.core.loose_diff import RefusedError
from forktool.core.loose_mail import Offered, loose_date, read_offered

DIFF = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
HEAD = "From: Ann <ann@example.org>\nDate: Mon, 2 Mar 2026 10:11:12 +0100\n"


def one(text: str | bytes) -> Offered:
    (offered,) = read_offered(text if isinstance(text, bytes) else text.encode(), source="it")
    return offered


def refusal(text: str) -> tuple[int, str]:
    with pytest.raises(RefusedError) as caught:
        read_offered(text.encode(), source="it")
    return caught.value.line, caught.value.reason


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("[PATCH] Fix it", "Fix it"),
        ("[PATCH v2 03/17] [Core][V1] Fix it (#1)", "[Core][V1] Fix it (#1)"),
        ("[RFC PATCH vllm] Fix it", "Fix it"),
        ("Re: [PATCH] Fix it", "Fix it"),
        ("[Core] [PATCH 1/2] Fix it", "[Core] Fix it"),
        ("[Core] Fix [PATCH] in the midst", "[Core] Fix [PATCH] in the midst"),
        ("Two  spaces stay", "Two  spaces stay"),
        ("folded\n over\n\tlines", "folded over lines"),
    ],
)
def test_a_subject_keeps_its_brackets(subject: str, expected: str) -> None:
    assert one(f"{HEAD}Subject: {subject}\n\n{DIFF}").message == f"{expected}\n"


def test_a_mail_without_stat_without_envelope() -> None:
    offered = one(f"{HEAD}Subject: Fix\n\nBody.\n\n{DIFF}")

    assert (offered.message, offered.author, offered.when) == (
        "Fix\n\nBody.\n",
        ("Ann", "ann@example.org"),
        "1772442672 +0100",
    )
    assert offered.files[0].line == 7


def test_bodies_that_are_latin_1() -> None:
    text = (
        f"{HEAD}Content-Type: text/plain; charset=iso-8859-1\nSubject: Fix\n\nCaf\xe9.\n---\n{DIFF}".encode(
            "latin-1"
        )
    )

    assert one(text.replace(b"+b", b"+\xe9")).message == "Fix\n\nCafé.\n"
    assert one(text.replace(b"+b", b"+\xe9")).files[0].hunks[0].lines == (b"-a\n", b"+\xe9\n")
    assert one(text.replace(b"; charset=iso-8859-1", b"")).message == "Fix\n\nCafé.\n"


def test_a_patch_that_is_attached() -> None:
    text = (
        f'{HEAD}Subject: Fix\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="=-="\n\n--=-=\n'
        f"Content-Type: text/plain\n\nBody.\n---\n x | 2 +-\n\n--=-=\nContent-Type: text/x-patch\n\n{DIFF}\n--=-=--\n"
    )
    offered = one(text)

    assert offered.message == "Fix\n\nBody.\n"
    assert offered.source == "it (the decoded mail of line 1)"


def test_a_message_that_ends_early_without_a_diffstat() -> None:
    assert refusal(f"{HEAD}Subject: Fix\n\nBody.\n---\nBug: 1\n\n{DIFF}") == (
        6,
        "git ends the message at this line, and 1 more lines would be lost",
    )


def test_two_diffs_with_an_empty_line_between_may_be_a_message() -> None:
    git = "diff --git a/x b/x\n" + DIFF
    line, reason = refusal(f"{HEAD}Subject: Fix\n\nBody.\n\n{git}\n{git}")

    assert line == 7
    assert "another after the empty line 13" in reason


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("", 1, "there is no diff in it"),
        (f"{HEAD}Subject: Fix\n\nNo diff.\n", 1, "this mail holds no diff"),
        (f"{HEAD}Subject:\n\n{DIFF}", 1, "the mail has no subject"),
        (f"From: nobody\nDate: x\nSubject: Fix\n\n{DIFF}", 1, "holds no address"),
        (f"{DIFF}\nfooter\n+lost\n", 7, "this looks like a line of a hunk"),
    ],
)
def test_what_is_refused(text: str, line: int, reason: str) -> None:
    found = refusal(text)

    assert found[0] == line
    assert reason in found[1]


def test_a_mail_without_a_date_says_so() -> None:
    offered = one(f"From: ann@example.org\nTo: x\nSubject: Fix\n\n{DIFF}")

    assert (offered.author, offered.when) == (("ann", "ann@example.org"), None)
    assert offered.notes == ("line 1: the mail has no date that can be read",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fri, 1 Jan 2100 00:00:00 +0000", "4102444800 +0000"),
        ("Thu, 1 Jan 1970 05:30:00 +0530", "0 +0530"),
        ("Wed, 31 Dec 1969 14:30:00 -0930", "0 -0930"),
        ("2026-01-02", None),
        ("", None),
    ],
)
def test_a_date(text: str, expected: str | None) -> None:
    assert loose_date(text) == expected


def test_text_above_a_bare_diff_is_its_message() -> None:
    offered = one(f"# Fix the gate\n\nIt refuses.\n\nIndex: x\n{'=' * 67}\n{DIFF}")

    assert (offered.message, offered.author) == ("Fix the gate\n\nIt refuses.\n", None)


def test_a_byte_order_mark_and_a_missing_last_newline() -> None:
    assert one(b"\xef\xbb\xbf" + DIFF.rstrip("\n").encode()).files[0].hunks[0].lines == (b"-a\n", b"+b\n")
