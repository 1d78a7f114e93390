"""Offered text taken apart into patches: mails of any make, an mbox, quilt's headers, bare diffs one after another.

How git reads a mail: git-mailinfo(1), git-am(1) DISCUSSION. The message ends at a line `---`; what stands between
it and the diff (a diffstat, notes to the reviewer) is no part of it. Where git would end a message at another line
than its author meant, the patch is refused and the line named (git's Documentation/format-patch-caveats.adoc).
"""

from __future__ import annotations

import email
import email.utils
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from forktool.core.diff import split_lines
from forktool.core.loose_diff import LooseFile, RefusedError, Section, is_noise, read_sections
from forktool.core.mail import decoded, named_address, read_headers, unsafe_lines
from forktool.core.objects import Person

_ENVELOPE = re.compile(rb"From \S+.*\d\d:\d\d:\d\d.*\d{4}\s*$")
_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]*:(?:\s|$)")
_MAIL_KEYS = (
    b"from:",
    b"subject:",
    b"date:",
    b"message-id:",
    b"x-",
    b"mime-version:",
    b"return-path:",
    b"received:",
)
_BREAK = re.compile(rb"---\s*$|diff -|Index: ")
_STAT = re.compile(
    rb"\s.*\|\s+(?:\d+\s*[+-]*|Bin.*|Unmerged)\s*$|\s*\d+ files? changed.*|\s+(?:create|delete) mode \d+ .*"
    rb"|\s+(?:rename|copy|mode change|rewrite) .*|\s*$|\s+\.\.\. *$"
)
_FOLDED = re.compile(r"[\t\r\n]+")
_TAG = re.compile(r"\s*\[[^\]]*PATCH[^\]]*\]\s*")
_DEP3 = {
    "description": "Subject", "subject": "Subject", "from": "From", "author": "From", "date": "Date",
    "origin": "Origin", "bug": "Bug", "forwarded": "Forwarded", "applied-upstream": "Applied-Upstream",
    "reviewed-by": "Reviewed-by", "acked-by": "Acked-by", "last-update": "Last-Update", "reason": "Reason",
    "signed-off-by": "Signed-off-by", "drop-when": "Drop-When",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Offered:
    """One patch as offered. `author` and `message` are None where the text has none.

    Attributes:
        source: the file, URL or commit that it came from.
        line: where it begins in the source.
        name: what the source calls it (a quilt series), None where it does not.
        when: git's raw date, None where the text has none.
    """

    source: str
    line: int
    files: tuple[LooseFile, ...]
    name: str | None = None
    author: tuple[str, str] | None = None
    when: str | None = None
    message: str | None = None
    notes: tuple[str, ...] = ()

    def person(self, otherwise: Person) -> Person:
        """The author; what is missing comes from `otherwise`."""
        name, address = self.author or (otherwise.name, otherwise.email)
        return Person(name=name, email=address, when=self.when or otherwise.when)


def read_offered(text: bytes, *, source: str) -> tuple[Offered, ...]:
    """Every patch of a text, in order.

    Raises:
        RefusedError: there is none, one is malformed, or a message would rewrite its own patch.
    """
    lines = split_lines(text.removeprefix(b"\xef\xbb\xbf"))
    if lines and not lines[-1].endswith(b"\n"):
        lines[-1] += b"\r\n" if lines[0].endswith(b"\r\n") else b"\n"
    found: list[Offered] = []
    for start, end in _chunks(lines):
        chunk = lines[start:end]
        if _is_mail(chunk):
            found.append(_mail(chunk, source=source, line=start + 1))
        else:
            found += _plain(chunk, source=source, line=start + 1)
    if not found:
        raise RefusedError(
            source,
            1,
            "there is no diff in it",
            hint="give a patch, as `git format-patch` or `diff -u` writes it",
        )
    return tuple(found)


def _chunks(lines: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """The mails of an mbox. A `From ` line splits only where headers follow: in prose they do not."""
    starts = [0]
    for at in range(1, len(lines)):
        if lines[at].startswith(b"From ") and _ENVELOPE.match(lines[at]):
            if _begins_headers(lines, at + 1):
                starts.append(at)
        elif (
            lines[at].startswith(b"From: ")
            and not lines[at - 1].strip()
            and at - 1 > starts[-1]
            and any(lines[back].rstrip(b"\r\n") in (b"-- ", b"--") for back in range(max(at - 5, 0), at))
            and _begins_headers(lines, at)
        ):
            starts.append(at)  # mails without envelope, one after another: the signature ended the last one
    return zip(starts, [*starts[1:], len(lines)], strict=True)


def _begins_headers(lines: Sequence[bytes], at: int) -> bool:
    head = [line.lower() for line in lines[at : at + 2]]
    if not head or not head[0].startswith(_MAIL_KEYS):
        return False
    return len(head) < 2 or head[1][:1] in (b" ", b"\t") or _HEADER.match(head[1]) is not None


def _is_mail(chunk: Sequence[bytes]) -> bool:
    if chunk and _ENVELOPE.match(chunk[0]) and _begins_headers(chunk, 1):
        return True
    keys: set[bytes] = set()
    for line in chunk:
        if line[:1] in (b" ", b"\t") and keys:
            continue
        if not _HEADER.match(line):
            break
        keys.add(line.partition(b":")[0].lower())
    return {b"from", b"subject"} <= keys and bool(keys & {b"date", b"message-id", b"mime-version", b"to"})


def _mail(chunk: Sequence[bytes], *, source: str, line: int) -> Offered:
    first = 1 if chunk[0].startswith(b"From ") else 0
    blank = next((at for at in range(first, len(chunk)) if not chunk[at].strip()), len(chunk))
    head = b"".join(chunk[first:blank]).replace(b"\r\n", b"\n").rstrip(b"\n")
    headers = read_headers(head)
    body, charset, is_encoded = _body(headers, head, chunk[blank + 1 :])
    where = f"{source} (the decoded mail of line {line})" if is_encoded else source
    body_line = 1 if is_encoded else line + blank + 1
    sections = read_sections(body, source=where, first_line=body_line)
    _check_sections(sections, where)
    section = sections[0]
    if not section.files:
        raise RefusedError(source, line, "this mail holds no diff")
    prose, notes = _message_lines(section, where, is_mail=True)
    subject = _subject(decoded(headers.get("subject", "")))
    if not subject.strip():
        raise RefusedError(source, line, "the mail has no subject", hint="write one into its `Subject:` line")
    message = clean_message(subject, [_decoded_text(text, charset) for _number, text in prose])
    body_start = next((number for number, text in prose if text.strip()), body_line)
    check_message(message, source=where, subject_line=line, body_line=body_start)
    author, when = _author(headers, source, line)
    if when is None:
        notes.append(f"line {line}: the mail has no date that can be read")
    return Offered(
        source=where,
        line=line,
        files=tuple(section.files),
        author=author,
        when=when,
        message=message,
        notes=(*notes, *section.notes),
    )


def _check_sections(sections: Sequence[Section], source: str) -> None:
    """In a mail, one run of diffs follows the message: a diff before other text is part of the message."""
    withdiffs = [section for section in sections if section.files]
    if len(withdiffs) > 1:
        first = withdiffs[0].files[0].line
        after = withdiffs[1].first_text
        raise RefusedError(
            source,
            first,
            f"a diff begins here and text follows it at line {after}: a message must not hold a diff",
            hint="indent the diff in the message, or take it out",
        )
    for section in withdiffs:
        for file in section.files[1:]:
            if file.after_blank is not None and section.files[0].is_git:
                raise RefusedError(
                    source,
                    section.files[0].line,
                    f"a diff begins here and another after the empty line {file.after_blank}: "
                    "it is not certain whether the first is part of the message",
                    hint="take the empty line out if both belong to the patch",
                )
    _check_rest(sections, source)


def _check_rest(sections: Sequence[Section], source: str) -> None:
    """Text after the last diff is a mail's footer, unless it looks like lines of a hunk."""
    if len(sections) > 1 and not sections[-1].files:
        number, text = next(((n, t) for n, t in sections[-1].prose if t.strip()), (0, b""))
        rest = [t for _n, t in sections[-1].prose]
        if text[:1] in (b"+", b"-", b" ") or any(re.match(rb"[+-](?![+-]*\s*$)", t) for t in rest):
            raise RefusedError(source, number, "this looks like a line of a hunk, but no hunk reaches it")


def _body(
    headers: dict[str, str], head: bytes, body: Sequence[bytes]
) -> tuple[list[bytes], str | None, bool]:
    """The lines of the text parts, their charset, and whether they had to be decoded."""
    kind = headers.get("content-type", "text/plain").lower()
    encoding = headers.get("content-transfer-encoding", "8bit").strip().lower()
    found = re.search(r'charset\s*=\s*"?([^\s";]+)', headers.get("content-type", ""), re.IGNORECASE)
    if not kind.startswith("multipart/") and encoding not in ("quoted-printable", "base64"):
        return list(body), found[1] if found else None, False
    mail = email.message_from_bytes(head + b"\n\n" + b"".join(body))
    texts: list[bytes] = []
    charset = None
    for part in mail.walk():
        if part.get_content_maintype() == "text" and part.get_content_subtype() != "html":
            payload = part.get_payload(decode=True)
            if isinstance(payload, bytes):
                charset = charset or part.get_content_charset()
                texts.append(payload if payload.endswith(b"\n") else payload + b"\n")
    return split_lines(b"".join(texts)), charset, True


def _message_lines(
    section: Section, source: str, *, is_mail: bool
) -> tuple[list[tuple[int, bytes]], list[str]]:
    """The lines of the message, and notes on what is left out after its end."""
    end = next((at for at, (_n, text) in enumerate(section.prose) if _BREAK.match(text)), len(section.prose))
    rest = [(number, text) for number, text in section.prose[end:] if not is_noise(text)]
    lost = [(number, text) for number, text in rest[1:] if not _STAT.match(text)]
    if end < len(section.prose) and is_noise(section.prose[end][1]):
        lost = [(number, text) for number, text in rest if text.strip()]
    notes = []
    if lost:
        number, text = section.prose[end]
        is_rule = text.rstrip() == b"---"
        is_cut_twice = any(other.rstrip() == b"---" for _n, other in lost)
        # Notes to a reviewer stand between `---` and a diffstat; without one they may as well be the message's rest.
        has_stat = any(text.strip() and _STAT.match(text) for _n, text in rest[1:])
        if is_cut_twice or (is_mail and not (is_rule and has_stat)):
            raise RefusedError(
                source,
                number,
                f"git ends the message at this line, and {len(lost)} more lines would be lost",
                hint="take the line out of the message, or indent it",
            )
        notes.append(f"lines {lost[0][0]} to {lost[-1][0]}: after `---`, no part of the message")
    return section.prose[:end], notes


def check_message(message: str, *, source: str, subject_line: int, body_line: int) -> None:
    """Refuse a message that would rewrite its own patch when it is read back.

    Args:
        message: subject, empty line, body.
        source: what errors call it.
        subject_line: the subject's line in the source.
        body_line: that of the body's first line.

    Raises:
        RefusedError: names the first such line.
    """
    for unsafe in unsafe_lines(message):
        number = subject_line if unsafe.line < 3 else body_line + unsafe.line - 3
        raise RefusedError(
            source,
            number,
            f"the message would change the patch: {unsafe.reason}: {unsafe.text!r}",
            hint="reword or indent that line of the message",
        )


def clean_message(subject: str, body: Sequence[str]) -> str:
    """A commit message as format-patch can give it back: no white space at line ends, no empty lines at the ends."""
    lines = [line.rstrip(" \t\r\n") for line in body]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    head = _FOLDED.sub(" ", subject).strip()
    return f"{head}\n\n" + "\n".join(lines) + "\n" if lines else f"{head}\n"


def _subject(text: str) -> str:
    """Without `[PATCH …]` and `Re:`; other brackets stay, as with `git am --keep-non-patch`."""
    text = re.sub(r"^\s*(?:(?:re|fwd?):\s*)+", "", text, flags=re.IGNORECASE)
    while True:
        match = re.match(r"((?:\s*\[[^\]]*\])*?)" + _TAG.pattern, text)
        if match is None:
            return text
        text = f"{match[1]} {text[match.end() :]}".strip()


def _decoded_text(text: bytes, charset: str | None) -> str:
    for candidate in (charset, "utf-8", "latin-1"):
        try:
            if candidate:
                return text.decode(candidate)
        except (UnicodeDecodeError, LookupError):
            continue
    return text.decode("utf-8", "replace")


def _author(headers: dict[str, str], source: str, line: int) -> tuple[tuple[str, str] | None, str | None]:
    text = headers.get("from", "")
    author = named_address(text) or email.utils.parseaddr(decoded(text))
    if not author[1] or (named_address(text) is None and "@" not in author[1]):
        raise RefusedError(source, line, f"the From header {text!r} holds no address")
    name = author[0] or author[1].partition("@")[0]
    return (_FOLDED.sub(" ", name), author[1]), loose_date(headers.get("date", ""))


def loose_date(text: str) -> str | None:
    """Git's raw form of a mail's date, or None."""
    parsed = email.utils.parsedate_tz(text)
    if parsed is None:
        return None
    try:
        seconds = email.utils.mktime_tz(parsed)
    except (ValueError, OverflowError):
        return None
    offset = parsed[9] or 0
    sign = "-" if offset < 0 else "+"
    return f"{seconds} {sign}{abs(offset) // 3600:02}{abs(offset) // 60 % 60:02}"


def _plain(chunk: Sequence[bytes], *, source: str, line: int) -> list[Offered]:
    sections = read_sections(chunk, source=source, first_line=line)
    _check_rest(sections, source)
    found = []
    for section in sections:
        if not section.files:
            continue
        offered = Offered(
            source=source,
            line=section.first_text or section.files[0].line,
            files=tuple(section.files),
            notes=tuple(section.notes),
        )
        if section.first_text is None:
            found.append(offered)
            continue
        prose, notes = _message_lines(section, source, is_mail=False)
        prose = prose[next((at for at, (_n, text) in enumerate(prose) if text.strip()), len(prose)) :]
        offered = replace(offered, notes=(*notes, *offered.notes))
        found.append(_described(offered, prose) if prose else offered)
    return found


def _described(offered: Offered, prose: Sequence[tuple[int, bytes]]) -> Offered:
    """A patch with the text above it: a quilt header (DEP-3), else a message like a commit's."""
    texts = [_decoded_text(text, None) for _number, text in prose]
    first = prose[0][0]
    keys = [text.partition(":")[0].lower() for text in texts[:1]]
    if not (_HEADER.match(prose[0][1]) and keys[0] in _DEP3):
        message = clean_message(texts[0].lstrip("# "), texts[1:])
        start = next((number for number, text in prose[1:] if text.strip()), first)
        check_message(message, source=offered.source, subject_line=first, body_line=start)
        return replace(offered, message=message)
    end = next((at for at, text in enumerate(texts) if not text.strip()), len(texts))
    fields: list[tuple[str, list[str]]] = []
    for text in texts[:end]:
        key, colon, value = text.partition(":")
        if text[:1] in (" ", "\t") and fields:
            fields[-1][1].append("" if text.strip() == "." else text.strip())
        elif colon:
            fields.append((_DEP3.get(key.lower(), key), [value.strip()]))
        else:
            fields.append(("", [text.strip()]))
    subject, *more = next((values for key, values in fields if key == "Subject"), [""])
    trailers = [
        f"{key}: {' '.join(v for v in values if v)}"
        for key, values in fields
        if key not in ("", "Subject", "From", "Date")
    ]
    body = [
        *more,
        "",
        *[" ".join(values) for key, values in fields if not key],
        "",
        *texts[end:],
        "",
        *trailers,
    ]
    told = clean_message(_subject(subject), _single_blanks(body)) if subject else None
    authors = [named_address(values[0]) for key, values in fields if key == "From"]
    dates = [loose_date(values[0]) for key, values in fields if key == "Date"]
    if told is not None:
        check_message(told, source=offered.source, subject_line=first, body_line=first + 1)
    return replace(offered, message=told, author=next(iter(authors), None), when=next(iter(dates), None))


def _single_blanks(lines: Sequence[str]) -> list[str]:
    return [line for at, line in enumerate(lines) if line.strip() or (at and lines[at - 1].strip())]
