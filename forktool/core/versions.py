"""Tags and versions: which is which, which is newer, which lie between.

Versions and their order are PEP 440's, by `packaging`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from packaging.version import InvalidVersion, Version

from forktool.core.upstream_config import DEFAULT_TAG_PATTERN
from forktool.errors import RequestError

_HOLE = "{version}"


@dataclass(frozen=True, slots=True)
class TagPattern:
    """How upstream writes a version as a tag: `v{version}`, `release-{version}`.

    Raises:
        RequestError: the text does not hold `{version}` exactly once.
    """

    text: str = DEFAULT_TAG_PATTERN
    _parts: tuple[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.text.count(_HOLE) != 1:
            raise RequestError(
                f"tag pattern {self.text!r} must hold {_HOLE} once",
                hint=f'write tag_pattern = "{DEFAULT_TAG_PATTERN}" in patchset.toml',
            )
        before, after = self.text.split(_HOLE)
        object.__setattr__(self, "_parts", (before, after))

    def tag(self, version: Version | str) -> str:
        """The tag of a version."""
        before, after = self._parts
        return f"{before}{version}{after}"

    def version(self, tag: str) -> Version | None:
        """The version that a tag names; None for a tag of another shape."""
        before, after = self._parts
        if not (tag.startswith(before) and tag.endswith(after)) or len(tag) <= len(before) + len(after):
            return None
        return _parsed(tag[len(before) : len(tag) - len(after)])

    def asked(self, text: str) -> Version | None:
        """The version that a person means by a tag or a bare version (`v0.17`, `0.17.0`)."""
        return self.version(text) or _parsed(text)

    def glob(self) -> str:
        """The pattern for `git ls-remote`: git's wildmatch, special characters escaped."""
        return "*".join(re.sub(r"([*?\[\\])", r"\\\1", part) for part in self._parts)


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def ordered(tags: Iterable[str], pattern: TagPattern) -> tuple[str, ...]:
    """The tags that name a version, oldest first, each version once."""
    by_version: dict[Version, str] = {}
    for tag in tags:
        version = pattern.version(tag)
        if version is not None:
            # Two spellings of one version (`v1.0`, `v1.0.0`): the shorter is upstream's older habit, either
            # will do, but the same one on every machine.
            by_version[version] = min(by_version.get(version, tag), tag)
    return tuple(by_version[version] for version in sorted(by_version))


def is_final(version: Version) -> bool:
    """Whether a version is a release for everybody: a post-release is, a pre-, dev or local one is not."""
    return not version.is_prerelease and version.local is None


def newest(tags: Iterable[str], pattern: TagPattern) -> str | None:
    """The newest final release; None when there is none."""
    return next((tag for tag in reversed(ordered(tags, pattern)) if _final(tag, pattern)), None)


def _final(tag: str, pattern: TagPattern) -> bool:
    version = pattern.version(tag)
    return version is not None and is_final(version)


def find(asked: str, known: Iterable[str], pattern: TagPattern) -> str | None:
    """The known tag that a person means: the exact text, else the tag of the same version."""
    tags = tuple(known)
    if asked in tags:
        return asked
    version = pattern.asked(asked)
    if version is None:
        return None
    return next((tag for tag in ordered(tags, pattern) if pattern.version(tag) == version), None)


def nearest(unknown: str, known: Iterable[str], pattern: TagPattern) -> tuple[str, ...]:
    """At most two tags to suggest for one that does not exist: the next older and the next newer.

    Final releases only, unless a pre-release was asked for or nothing else exists. For a text that is no
    version at all, the newest final release.
    """
    tags = ordered(known, pattern)
    finals = tuple(tag for tag in tags if _final(tag, pattern))
    version = pattern.asked(unknown)
    if version is None:
        return finals[-1:] or tags[-1:]
    pool = tags if version.is_prerelease or not finals else finals

    def beside(wanted: Callable[[Version], bool]) -> list[str]:
        return [tag for tag in pool if (found := pattern.version(tag)) is not None and wanted(found)]

    older = beside(lambda found: found < version)
    newer = beside(lambda found: found > version)
    return (*older[-1:], *newer[:1])


def unknown_tag(asked: str, known: Iterable[str], pattern: TagPattern, *, name: str) -> RequestError:
    """The error for a tag that upstream does not have; it names the nearest ones."""
    close = nearest(asked, known, pattern)
    if not close:
        return RequestError(f"{asked} is not a release of {name}, which has none")
    return RequestError(
        f"{asked} is not a release of {name}; nearest: {', '.join(close)}",
        hint=f"use {close[-1]}",
    )


def between(span: str, known: Iterable[str], pattern: TagPattern, *, name: str) -> tuple[str, ...]:
    """The releases of a span `A..B`: after A, up to and including B, oldest first.

    `A..` ends at the newest final release. Pre- and dev releases between are left out; an end that is
    named counts whatever it is. Post-releases count.

    Raises:
        RequestError: the text is no span, an end is unknown, or B is not newer than A.
    """
    left, dots, right = span.partition("..")
    if not dots or not left or right.startswith("."):
        raise RequestError(f"{span} is not a span of releases", hint="write it as v0.16.0..v0.17.0")
    tags = ordered(known, pattern)
    end = right or newest(tags, pattern) or ""
    ends = []
    for asked in (left, end):
        tag = find(asked, tags, pattern)
        if tag is None:
            raise unknown_tag(asked, tags, pattern, name=name)
        ends.append(tag)
    first, last = (tags.index(tag) for tag in ends)
    if first >= last:
        raise RequestError(
            f"{span} holds no release: {ends[1]} is not newer than {ends[0]}",
            hint=f"write it as {ends[1]}..{ends[0]}" if first > last else None,
        )
    return tuple(tag for tag in tags[first + 1 : last + 1] if tag == ends[1] or _final(tag, pattern))
