"""The patch series and its words: names, patches, base, what was dropped."""

from __future__ import annotations

import hashlib
import itertools
import re
from dataclasses import dataclass
from functools import cached_property
from typing import NewType

from forktool.core.diff import FileDiff, parse_diff
from forktool.core.mail import parse_mail
from forktool.core.objects import Mode, Oid, Person
from forktool.core.trailers import Trailer, split_trailers
from forktool.errors import PatchsetError, RequestError

PatchName = NewType("PatchName", str)
"""The name of a patch: that of its file, without `.patch`."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")


def patch_name(text: str) -> PatchName:
    """Check a name: letters, digits and `. _ + -`, so that it serves as file name, ref and test name.

    Raises:
        RequestError: it is not such a name.
    """
    if not _NAME.fullmatch(text) or text.endswith((".patch", ".lock", ".")) or ".." in text:
        raise RequestError(
            f"{text!r} is not a patch name",
            hint="use letters, digits, '.', '_', '+' and '-', as in mla-decode",
        )
    return PatchName(text)


@dataclass(frozen=True, kw_only=True)
class Patch:
    """One patch of the series, parsed once; `text` is its file, byte for byte."""

    name: PatchName
    author: Person
    message: str
    files: tuple[FileDiff, ...]
    text: bytes

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.partition("\n")[0]

    @cached_property
    def trailers(self) -> tuple[Trailer, ...]:
        """The trailers of the message, in order."""
        return split_trailers(self.message)[1]

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Every path that it reads or writes, once each, in the order of the file."""
        return tuple(dict.fromkeys(path for file in self.files for path in file.paths))

    @cached_property
    def renames(self) -> dict[str, str]:
        """The files that it moves: old path to new path."""
        return {
            file.old_path: file.new_path
            for file in self.files
            if file.old_path is not None and file.new_path not in (None, file.old_path) and not file.is_copy
        }

    @cached_property
    def added(self) -> int:
        """How many lines it adds."""
        return sum(file.count(b"+") for file in self.files)

    @cached_property
    def removed(self) -> int:
        """How many lines it removes."""
        return sum(file.count(b"-") for file in self.files)

    @cached_property
    def digest(self) -> str:
        """The sha256 of the file, in hexadecimal."""
        return hashlib.sha256(self.text).hexdigest()


def parse_patch(name: PatchName, text: bytes, *, file: str) -> Patch:
    """Read a patch file.

    Args:
        name: what the series calls it.
        text: the file.
        file: its path, for errors.

    Raises:
        PatchsetError: it is not what `git format-patch` writes, or it changes nothing.
    """
    mail = parse_mail(text, name=file)
    files = parse_diff(mail.diff, name=file, first_line=mail.diff_line)
    if not files:
        raise PatchsetError(
            f"{file}:1: the patch changes nothing", hint=f"forktool drop {name} --reason empty"
        )
    return Patch(name=name, author=mail.author, message=mail.message, files=files, text=text)


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """The upstream tree that the patches apply to exactly; `tree` is None until it was first read."""

    tag: str
    tree: Oid | None


@dataclass(frozen=True, kw_only=True)
class Series:
    """A base and the patches on it, in order."""

    base: Base
    patches: tuple[Patch, ...]

    @cached_property
    def digest(self) -> str:
        """A sha256 over base, names, order and content, in hexadecimal: the key of evidence and of wheels."""
        total = hashlib.sha256(f"{self.base.tag}\n{self.base.tree}\n".encode())
        for patch in self.patches:
            total.update(f"{patch.name} {patch.digest}\n".encode())
        return total.hexdigest()

    @property
    def names(self) -> tuple[PatchName, ...]:
        """The names, in order."""
        return tuple(patch.name for patch in self.patches)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that some patch reads or writes."""
        return tuple(dict.fromkeys(path for patch in self.patches for path in patch.paths))

    @property
    def modes(self) -> dict[str, Mode]:
        """The mode of every file that the patches were made on, where they name it."""
        found: dict[str, Mode] = {}
        for patch in self.patches:
            for file in patch.files:
                if file.old_path is not None and file.old_mode is not None:
                    found.setdefault(file.old_path, file.old_mode)
        return found

    def find(self, name: str) -> Patch:
        """The patch of that name.

        Raises:
            RequestError: there is none; names the nearest.
        """
        for patch in self.patches:
            if patch.name == name:
                return patch
        import difflib

        near = difflib.get_close_matches(name, self.names, n=1)
        hint = (
            f"did you mean {near[0]}?" if near else f"the series holds: {', '.join(self.names) or 'nothing'}"
        )
        raise RequestError(f"no patch is named {name}", hint=hint)


def parse_series_file(text: str, *, file: str) -> tuple[PatchName, ...]:
    """Read quilt's series file: one `NAME.patch` a line, `#` comments, `-p1` allowed (quilt(1)).

    Raises:
        PatchsetError: a line that is no patch name, another strip level, or a name that comes twice.
    """
    names: dict[PatchName, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        first, *options = words
        if options not in ([], ["-p1"]):
            raise PatchsetError(f"{file}:{number}: only -p1 is supported, not {' '.join(options)}")
        if not first.endswith(".patch"):
            raise PatchsetError(f"{file}:{number}: {first} does not end in .patch")
        try:
            name = patch_name(first.removesuffix(".patch"))
        except RequestError as error:
            raise PatchsetError(f"{file}:{number}: {error.message}", hint=error.hint) from error
        if name in names:
            raise PatchsetError(f"{file}:{number}: {first} stands here a second time")
        names[name] = None
    return tuple(names)


def render_series_file(names: tuple[PatchName, ...], *, previous: str) -> str:
    """The series file for these names, keeping the comments of the previous one where they stood.

    The comment that the file begins with belongs to the file. Any other belongs to the patch below it, and goes
    where that patch goes.
    """
    before = previous.splitlines()
    head = list(itertools.takewhile(lambda line: line.startswith("#"), before))
    comments: dict[str, list[str]] = {}
    pending: list[str] = []
    trailing: dict[str, str] = {}
    for line in before[len(head) :]:
        words = line.partition("#")[0].split()
        if words:
            key = words[0].removesuffix(".patch")
            comments[key], pending = pending, []
            trailing[key] = line
        else:
            pending.append(line)
    kept = [text for name in names for text in (*comments.get(name, ()), trailing.get(name, f"{name}.patch"))]
    return "".join(f"{line}\n" for line in [*head, *kept, *pending])
