"""What of a source distribution is the tagged tree: the rules, with no archive library.

A source distribution is upstream's tree under one top folder (PEP 625), plus what the build writes into it.
Left out: `PKG-INFO` (PEP 643), `*.egg-info/` and a `setup.cfg` that holds nothing but the `[egg_info]` section
(setuptools' `sdist` writes both), byte-compiled files, and the patterns of patchset.toml. A project's own
setup.cfg stays, although setuptools has re-written it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from forktool.core.objects import Mode
from forktool.errors import IntegrityError

_ALWAYS = ("PKG-INFO", "**/*.egg-info/", "**/__pycache__/", "**/*.pyc")
_EGG_INFO_ONLY = re.compile(rb"\s*\[egg_info\]\s*(?:tag_(?:build|date|svn_revision)\s*=[^\n]*\s*)*\Z")


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    # `*` and `?` stop at a slash, `**/` is any number of folders, a final slash is all that lies below.
    parts: list[str] = []
    at = 0
    text = pattern + "**" if pattern.endswith("/") else pattern
    while at < len(text):
        if text.startswith("**/", at):
            parts.append("(?:[^/]+/)*")
            at += 3
        elif text.startswith("**", at):
            parts.append(".*")
            at += 2
        else:
            parts.append({"*": "[^/]*", "?": "[^/]"}.get(text[at]) or re.escape(text[at]))
            at += 1
    return re.compile("".join(parts), re.DOTALL)


def matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path is one of the patterns: `*` within a name, `**/` any folders, `folder/` all below it."""
    return any(_compiled(pattern).fullmatch(path) for pattern in patterns)


def is_generated(path: str, content: bytes, generated: Iterable[str]) -> bool:
    """Whether the build wrote this file; `path` is relative to the top folder."""
    if path == "setup.cfg":
        return _EGG_INFO_ONLY.match(content) is not None
    return matches(path, _ALWAYS) or matches(path, generated)


class TreePlan:
    """The tree that an archive's members make, checked as they come.

    Every refusal is an `IntegrityError` that names the archive and the member. Paths are relative to the top
    folder. A path that comes twice counts as unpacking leaves it: the last one wins.

    Args:
        archive: what messages call the archive.
    """

    def __init__(self, archive: str) -> None:
        self._archive = archive
        self._top: str | None = None
        self.files: dict[str, tuple[Mode, int]] = {}
        """Path to mode and a number of the caller's that stands for the content."""
        self._links: dict[str, str] = {}

    def path(self, member: str) -> str | None:
        """A member's path below the top folder; None for the top folder itself.

        Raises:
            IntegrityError: an absolute path, `..`, `.git`, a control character, or a second top folder.
        """
        if member.startswith("/") or re.match(r"[A-Za-z]:[\\/]", member):
            raise self._refusal(member, "is an absolute path")
        if "\0" in member or "\n" in member:
            raise self._refusal(member, "has a line break in its name")
        parts = [part for part in member.split("/") if part not in ("", ".")]
        if ".." in parts:
            raise self._refusal(member, "leads out of the archive")
        if not parts:
            return None
        top, *rest = parts
        if self._top is None:
            self._top = top
        if top != self._top:
            raise self._refusal(member, f"lies beside the top folder {self._top}/")
        if any(part.lower() == ".git" for part in rest):
            raise self._refusal(member, "would be part of a git repository")
        return "/".join(rest) or None

    def add_file(self, path: str, *, executable: bool, content: int) -> None:
        """A regular file; `content` is the number that stands for its bytes."""
        self._place(path, Mode.EXECUTABLE if executable else Mode.FILE, content)

    def add_link(self, path: str, target: str, *, content: int) -> None:
        """A symbolic link; `content` is the number that stands for its target's text.

        Raises:
            IntegrityError: the target is absolute, or leads or might lead out of the tree.
        """
        parts = [part for part in target.split("/") if part not in ("", ".")]
        climbs = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
        # Above the link lie real folders only (`finish` sees to it), below it there may be more links. So `..` is
        # safe at the start of a target and nowhere else: after a name it may climb from where a link led.
        if target.startswith("/") or climbs > path.count("/") or ".." in parts[climbs:]:
            raise self._refusal(path, f"links out of the tree, to {target}")
        self._place(path, Mode.SYMLINK, content)
        self._links[path] = target

    def add_hard_link(self, path: str, member: str) -> None:
        """A second name of a file that came before, as tar writes files of one inode.

        Raises:
            IntegrityError: no such file came before.
        """
        target = self.path(member)
        found = self.files.get(target or "")
        if found is None or found[0] is Mode.SYMLINK:
            raise self._refusal(path, f"is a hard link to {member}, which is not in the tree")
        self._place(path, *found)

    def refuse(self, member: str, kind: str) -> IntegrityError:
        """The error for a member of a kind that no source tree holds."""
        return self._refusal(member, f"is a {kind}")

    def finish(self) -> dict[str, tuple[Mode, int]]:
        """The tree.

        Raises:
            IntegrityError: it is empty, a file lies where a folder is, or below a link.
        """
        if not self.files:
            raise IntegrityError(f"{self._archive} holds no files")
        for path in self.files:
            parent = path
            while "/" in parent:
                parent = parent.rpartition("/")[0]
                if parent in self.files:
                    kind = "link" if parent in self._links else "file"
                    raise self._refusal(path, f"lies below {parent}, which is a {kind}")
        return self.files

    def _place(self, path: str, mode: Mode, content: int) -> None:
        self._links.pop(path, None)
        self.files[path] = (mode, content)

    def _refusal(self, member: str, reason: str) -> IntegrityError:
        return IntegrityError(
            f"{self._archive}: {member!r} {reason}",
            hint='take the tag from git: sources = ["git"] in patchset.toml',
        )
