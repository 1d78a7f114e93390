"""What a person sees: the only `print`. stdout carries the answer, stderr everything else."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import TextIO

Advance = Callable[[int], None]


class Verbosity(IntEnum):
    """How much goes to stderr."""

    QUIET = 0
    NORMAL = 1
    VERBOSE = 2


_STYLES = {"red": "31", "green": "32", "yellow": "33", "blue": "34", "dim": "2", "bold": "1"}


class Console:
    """The two streams, colour and progress of one run.

    Args:
        verbosity: QUIET drops notes, hints and progress; errors and warnings always show.
        as_json: the answer is one JSON document and `answer` prints nothing.
    """

    def __init__(
        self,
        *,
        verbosity: Verbosity = Verbosity.NORMAL,
        as_json: bool = False,
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
    ) -> None:
        self._out = stdout or sys.stdout
        self._err = stderr or sys.stderr
        self._verbosity = verbosity
        self.as_json = as_json
        if verbosity is Verbosity.VERBOSE:
            _echo_commands(self._err)

    def answer(self, text: str = "") -> None:
        """A line of the answer."""
        if not self.as_json:
            _print(text, self._out)

    def document(self, document: object) -> None:
        """The whole answer as JSON; prints only under `--json`."""
        if self.as_json:
            text = json.dumps(document, indent=2, ensure_ascii=False)
            if _encodable(text, self._out) != text:
                text = json.dumps(document, indent=2)
            _print(text, self._out)

    def raw(self, text: str) -> None:
        """Text of the answer that already ends its own lines, such as a diff."""
        if not self.as_json:
            self._out.write(_encodable(text, self._out))

    def note(self, text: str) -> None:
        """What is happening now."""
        if self._verbosity > Verbosity.QUIET:
            _print(text, self._err)

    def warning(self, text: str) -> None:
        """Something that may surprise the user later."""
        _print(f"{self._paint_err('warning:', 'yellow')} {text}", self._err)

    def error(self, text: str) -> None:
        """Why there is no result."""
        _print(f"{self._paint_err('error:', 'red')} {text}", self._err)

    def hint(self, text: str) -> None:
        """A command to type next."""
        if self._verbosity > Verbosity.QUIET:
            _print(f"{self._paint_err('hint:', 'blue')} {text}", self._err)

    def paint(self, text: str, style: str) -> str:
        """The text in a colour or weight where stdout shows it, else unchanged."""
        return _painted(text, style, self._out)

    def _paint_err(self, text: str, style: str) -> str:
        return _painted(text, style, self._err)

    @contextmanager
    def progress(self, label: str, total: int | None) -> Iterator[Advance]:
        """A bar in bytes on a terminal, nothing elsewhere; yields the function that advances it."""
        if self._verbosity is Verbosity.QUIET or not self._err.isatty():
            yield lambda _amount: None
            return
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
        )
        with Progress(*columns, console=RichConsole(file=self._err), transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda amount: bar.update(task, advance=amount)


def _print(text: str, stream: TextIO) -> None:
    print(_encodable(text, stream), file=stream)


def _encodable(text: str, stream: TextIO) -> str:
    """The text with escapes for what the stream cannot show: under LC_ALL=C, or a file name that is not UTF-8."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _painted(text: str, style: str, stream: TextIO) -> str:
    # https://no-color.org: any non-empty value turns colour off.
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not stream.isatty():
        return text
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m"


def _echo_commands(stream: TextIO) -> None:
    channel = logging.StreamHandler(stream)
    channel.setFormatter(logging.Formatter("%(message)s"))
    logger = logging.getLogger("forktool")
    logger.handlers[:] = [channel]
    logger.setLevel(logging.DEBUG)
    logger.propagate = False
