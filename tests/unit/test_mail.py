"""Patch files taken apart, and messages that would rewrite them."""

from __future__ import annotations

import pytest

from forktool.core.mail import decoded, named_address, parse_mail, raw_date, unsafe_lines
from forktool.core.objects import Person
from forktool.errors import PatchsetError

ENVELOPE = "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
HEADERS = "From: Ann <ann@example.org>\nDate: Fri, 1 Jan 2100 01:00:00 +0100\nSubject: [A][B] Title\n"


def test_a_patch_file() -> None:
    mail = parse_mail(f"{ENVELOPE}{HEADERS}\nBody.\n\nKey: value\n\ndiff --git a/x b/x\n".encode(), name="it")

    assert mail.author == Person(name="Ann", email="ann@example.org", when="4102444800 +0100")
    assert mail.message == "[A][B] Title\n\nBody.\n\nKey: value\n"
    assert (mail.diff, mail.diff_line) == (b"diff --git a/x b/x\n", 10)


def test_a_subject_alone() -> None:
    assert (
        parse_mail(f"{ENVELOPE}{HEADERS}\n\ndiff --git a/x b/x\n".encode(), name="it").message
        == "[A][B] Title\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Subject: x\n", "it:1: not a patch that git format-patch wrote"),
        (ENVELOPE + HEADERS, "it:1: the patch has no message"),
        (f"{ENVELOPE}Subject: x\nDate: y\n\n\n", "it:2: the patch has no From header"),
        (
            f"{ENVELOPE}From: nobody\nDate: Fri, 1 Jan 2100 01:00:00 +0100\nSubject: x\n\n",
            "it:2: the From header holds no name and address",
        ),
        (
            f"{ENVELOPE}From: A <a@b>\nDate: tomorrow\nSubject: x\n\n",
            "it:3: 'tomorrow' is not an RFC 2822 date",
        ),
    ],
)
def test_what_is_no_patch_file(text: str, message: str) -> None:
    with pytest.raises(PatchsetError) as caught:
        parse_mail(text.encode(), name="it")

    assert caught.value.message == message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain =? text", "plain =? text"),
        ("=?UTF-8?q?J=C3=BCrgen=20Q=5F=3F?=", "Jürgen Q_?"),
        ("=?utf-8?B?5pel5pys?= =?UTF-8?B?6Kqe?=", "日本語"),
        ("=?UTF-8?q?one=20?=\t=?UTF-8?q?two_?=", "one two "),
        ("[x] =?ISO-8859-1?Q?caf=E9?= bar", "[x] café bar"),
        ("=?no-such-charset?q?x?=", "=?no-such-charset?q?x?="),
        ("=?UTF-8?q?=FF?=", "=?UTF-8?q?=FF?="),
    ],
)
def test_encoded_words(text: str, expected: str) -> None:
    assert decoded(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann <a@b>", ("Ann", "a@b")),
        ('"A. \\"Q\\" B" <a@b>', ('A. "Q" B', "a@b")),
        ("=?UTF-8?q?=22=C3=9C=22?= <a@b>", ('"Ü"', "a@b")),
        ("<a@b>", ("", "a@b")),
        ("a@b", None),
    ],
)
def test_an_address(text: str, expected: tuple[str, str] | None) -> None:
    assert named_address(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Thu, 1 Jan 1970 00:00:00 +0000", "0 +0000"),
        ("Thu, 1 Jan 1970 13:45:00 +1345", "0 +1345"),
        ("Wed, 31 Dec 1969 14:30:00 -0930", "0 -0930"),
        ("29 Feb 2096 12:00:00 +0000", "3981355200 +0000"),
    ],
)
def test_a_date(text: str, expected: str) -> None:
    assert raw_date(text, name="it") == expected


@pytest.mark.parametrize(
    "line",
    [
        "---", "---\t", "--- a/x", "diff -u", "diff --git a/x b/x", "Index: x", "  --- a/x", " @@ -1 +1 @@", "-- ",
        "--", f"From {'0' * 40} Mon Sep 17 00:00:00 2001", "From a@b Mon Jan 1 10:00:00 2024", "-- >8 --",
    ],
)  # fmt: skip
def test_a_line_that_would_rewrite_the_patch(line: str) -> None:
    (found,) = unsafe_lines(f"Subject\n\nText.\n{line}\nmore\n")

    assert (found.line, found.text) == (4, line)


@pytest.mark.parametrize(
    "line",
    [
        "----",
        "-- x",
        "diff",
        "different",
        "Index",
        "From here on",
        "From 16 to 32 entries.",
        "- item",
        "+ item",
        "From: late",
    ],
)
def test_a_line_that_git_leaves_alone(line: str) -> None:
    assert list(unsafe_lines(f"Subject\n\nText.\n{line}\nmore\n")) == []


@pytest.mark.parametrize("line", ["From: A <a@b>", "subject: x", "Date: now", "[PATCH] x", "[PATCH]"])
def test_the_first_lines_of_a_body_must_not_be_headers(line: str) -> None:
    assert [found.line for found in unsafe_lines(f"Subject\n\n{line}\nDate: x\nText.\n")] == [3, 4]


def test_a_subject_of_two_lines() -> None:
    assert [found.line for found in unsafe_lines("One\ntwo\n")] == [2]
