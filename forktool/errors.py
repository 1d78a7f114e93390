"""Every error that a user can meet, with the exit code it ends in.

A conflict, a failed cell and a failed check are results, not errors: they have no class here. An error is
raised once, with a hint where there is a command to type next, and printed once, by `forktool.cli`.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process tells its caller; the same for every command."""

    DONE = 0
    NO = 1
    """It ran and the answer is no: check found drift, a cell failed."""
    REQUEST = 2
    """The request or the patchset is wrong."""
    STOPPED = 3
    """Stopped at a conflict or a suspect; resumable."""
    OUTSIDE = 4
    """Something outside failed: network, git, GitHub, a missing tool, the disk."""
    INTERRUPTED = 130
    BUG = 255


class ForktoolError(Exception):
    """The base of all of them.

    Args:
        message: one line without a final full stop after a path or an id.
        hint: the command to type next, or what to change; printed on a line of its own.
    """

    exit_code: ExitCode = ExitCode.OUTSIDE

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RequestError(ForktoolError):
    """A flag, a name or a tag that makes no sense."""

    exit_code = ExitCode.REQUEST


class PatchsetError(ForktoolError):
    """The patchset, or a patch offered to it, is malformed; the message begins `FILE:LINE:` where it can."""

    exit_code = ExitCode.REQUEST


class StoppedError(ForktoolError):
    """The command cannot go on before a person has decided something that is already recorded."""

    exit_code = ExitCode.STOPPED


class OutsideError(ForktoolError):
    """Something that is not ours failed; trying again may help."""


class GitError(OutsideError):
    """A git command failed; the message holds its last line of stderr."""


class NetworkError(OutsideError):
    """A host could not be reached, or it broke off."""


class IntegrityError(OutsideError):
    """Bytes are not what their index, hash or format promised."""


class DiskError(OutsideError):
    """The file system refused: full, read-only, not permitted."""


class ToolMissingError(OutsideError):
    """A program, a library or a device is not there."""


class LockedError(OutsideError):
    """Another forktool works on the same state."""
