"""A release's tree for questions about a few files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from forktool.adapters.http import NoRangeError
from forktool.adapters.wheel_range import NotInWheelError, WheelTree
from forktool.core.objects import Entry, Mode
from forktool.core.tree import SourceTree

_Result = TypeVar("_Result")


class LightTree:
    """A wheel's tree, until it is asked what a wheel cannot tell; the whole tree from then on.

    Args:
        wheel: asked first.
        whole: gets the whole tree; called once at most.
        modes: what is known of Python files' modes elsewhere; a wheel does not tell them.
    """

    def __init__(self, wheel: WheelTree, whole: Callable[[], SourceTree], modes: Mapping[str, Mode]) -> None:
        self._tree: SourceTree = wheel
        self._whole = whole
        self._modes = modes
        self._is_light = True

    @property
    def label(self) -> str:
        """The tag."""
        return self._tree.label

    def entry(self, path: str) -> Entry | None:
        """See `SourceTree.entry`."""
        entry = self._answer(lambda tree: tree.entry(path))
        if entry is None or not self._is_light or not path.endswith(".py"):
            return entry
        return Entry(self._modes.get(path, entry.mode), entry.oid)

    def read(self, path: str) -> bytes | None:
        """See `SourceTree.read`."""
        return self._answer(lambda tree: tree.read(path))

    def has_folder(self, path: str) -> bool:
        """See `SourceTree.has_folder`."""
        return self._answer(lambda tree: tree.has_folder(path))

    def _answer(self, ask: Callable[[SourceTree], _Result]) -> _Result:
        if self._is_light:
            try:
                return ask(self._tree)
            except (NotInWheelError, NoRangeError):
                self._tree = self._whole()
                self._is_light = False
        return ask(self._tree)
