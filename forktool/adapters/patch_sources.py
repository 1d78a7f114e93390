"""Where offered patches come from: files, mailboxes, folders, quilt series, URLs, and commits of a repository."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from forktool.adapters.git_repo import RepositoryCommit, commit_diff, commits
from forktool.adapters.http import Http, shown
from forktool.adapters.state import translated
from forktool.core.diff import split_lines
from forktool.core.loose_diff import RefusedError, read_sections
from forktool.core.loose_mail import Offered, check_message, clean_message, read_offered
from forktool.errors import RequestError

_URL = re.compile(r"https?://", re.IGNORECASE)
_SUFFIXES = (".patch", ".diff", ".mbox", ".eml")


@dataclass(frozen=True, kw_only=True, slots=True)
class PatchText:
    """Text that may hold patches. `name` is what a quilt series calls it; `commit` is set for a commit's diff."""

    source: str
    content: bytes
    name: str | None = None
    commit: RepositoryCommit | None = None

    def offered(self) -> tuple[Offered, ...]:
        """Its patches.

        Raises:
            RefusedError: it holds none, or one that cannot be read exactly.
        """
        if self.commit is not None:
            return (_of_commit(self, self.commit),)
        found = read_offered(self.content, source=self.source)
        if self.name is None or len(found) != 1:
            return found
        return (replace(found[0], name=self.name),)


def find_texts(words: Sequence[str], *, offline: bool) -> tuple[PatchText, ...]:
    """The texts that the words of a command line name, in their order.

    Args:
        words: paths, URLs, and pairs of a repository and a span `A..B`.
        offline: refuse URLs.

    Raises:
        RequestError: a word names nothing, or nothing with patches; a span is empty or holds a merge.
        NetworkError: a URL could not be read.
        DiskError: a file could not be read.
    """
    found: list[PatchText] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        path = Path(word).expanduser()
        if rest and _is_span(rest[0]) and not Path(rest[0]).exists():
            found += _from_repository(path, rest.pop(0))
        elif _URL.match(word):
            found.append(_from_url(word, offline=offline))
        elif path.is_dir():
            found += _from_folder(path)
        elif path.is_file():
            found.append(PatchText(source=str(path), content=_read(path)))
        elif _is_span(word):
            raise RequestError(
                f"{word} is a span of commits without a repository", hint=f"forktool import . {word}"
            )
        else:
            raise RequestError(f"{word} does not exist", hint="give a file, a folder, a URL, or REPO A..B")
    return tuple(found)


def _is_span(word: str) -> bool:
    return ".." in word and not word.startswith(("./", "../", "/")) and not _URL.match(word) and word != ".."


def _read(path: Path) -> bytes:
    with translated(f"cannot read {path}"):
        return path.read_bytes()


def _from_url(url: str, *, offline: bool) -> PatchText:
    with closing(Http(offline=offline)) as http:
        answer = http.get(url, accept="text/plain, text/x-patch, */*;q=0.5")
    body = answer.body or b""
    if answer.content_type == "text/html" or body.lstrip()[:15].lower().startswith(
        (b"<!doctype html", b"<html")
    ):
        is_page = re.fullmatch(r".*/(pull|commit|-/merge_requests)/[^/.]+/?", url)
        raise RequestError(
            f"{shown(url)} is a web page, not a patch",
            hint=f"forktool import {shown(url).rstrip('/')}.patch"
            if is_page
            else "give the URL of the patch itself",
        )
    return PatchText(source=shown(url), content=body)


def _from_folder(folder: Path) -> list[PatchText]:
    for series in (
        folder / "series",
        folder / "patches" / "series",
        folder / "debian" / "patches" / "series",
    ):
        if series.is_file():
            return list(_from_quilt(series))
    with translated(f"cannot read {folder}"):
        files = [path for path in folder.iterdir() if path.suffix in _SUFFIXES and path.is_file()]
    if not files:
        span = " (for commits: forktool import REPO A..B)" if (folder / ".git").exists() else ""
        raise RequestError(f"{folder} holds no patches and no series file{span}")
    return [PatchText(source=str(path), content=_read(path)) for path in sorted(files, key=_natural)]


def _natural(path: Path) -> list[tuple[bool, int, str]]:
    """Numbers in a name count as numbers: 10-x comes after 9-x."""
    parts = re.split(r"(\d+)", path.name)
    return [(False, int(part), "") if part.isdecimal() else (True, 0, part) for part in parts if part]


def _from_quilt(series: Path) -> Iterator[PatchText]:
    listed = _read(series).decode("utf-8", "surrogateescape").splitlines()
    for number, line in enumerate(listed, 1):
        words = re.sub(r"(^|\s)#.*", "", line).split()
        if not words:
            continue
        name, *options = words
        if "-R" in options:
            raise RequestError(
                f"{series}:{number}: {name} is applied in reverse", hint="reverse the patch itself"
            )
        path = series.parent / name
        if not path.is_file():
            raise RequestError(f"{series}:{number}: {name} is not in {series.parent}")
        stem = re.sub(r"\.(patch|diff)$", "", Path(name).name)
        yield PatchText(source=str(path), content=_read(path), name=stem)


def _from_repository(path: Path, span: str) -> Iterable[PatchText]:
    for commit in commits(path, span):
        yield PatchText(source=f"{path}@{commit.oid[:12]}", content=commit_diff(path, commit), commit=commit)


def _of_commit(text: PatchText, commit: RepositoryCommit) -> Offered:
    sections = read_sections(split_lines(text.content), source=text.source)
    if not sections[0].files:
        raise RefusedError(text.source, 1, f"the commit {commit.subject!r} changes nothing")
    lines = commit.message.strip("\n").split("\n")
    if len(lines) > 1 and lines[1].strip():
        check_message(commit.message, source=text.source, subject_line=1, body_line=3)
    message = clean_message(lines[0], lines[1:])
    # A commit is no file: its lines are those of its message.
    check_message(message, source=text.source, subject_line=1, body_line=3)
    return Offered(
        source=text.source,
        line=1,
        files=tuple(sections[0].files),
        author=(commit.author.name, commit.author.email),
        when=commit.author.when.replace("-0000", "+0000"),  # as format-patch writes it
        message=message,
    )
