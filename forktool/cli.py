"""The program: parse, wire, dispatch, and the one place where an error becomes text and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from forktool import __version__
from forktool.adapters.console import Console, Verbosity
from forktool.arguments import parser
from forktool.errors import ExitCode, ForktoolError

_COMMON = ("patchset", "json", "offline", "quiet", "verbose", "run")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        argv: the words after the program's name; None takes the process's.

    Returns:
        The exit code; see `forktool.errors.ExitCode`.
    """
    arguments = vars(parser().parse_args(argv))
    common = {name: arguments.get(name) for name in _COMMON}
    verbosity = Verbosity.NORMAL
    if common["verbose"]:
        verbosity = Verbosity.VERBOSE
    elif common["quiet"]:
        verbosity = Verbosity.QUIET
    console = Console(verbosity=verbosity, as_json=bool(common["json"]))
    options = {name: value for name, value in arguments.items() if name not in _COMMON}
    try:
        return int(_run(common, options, console))
    except ForktoolError as error:
        console.error(error.message)
        if error.hint:
            console.hint(error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        console.error("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout went away, as `head` does. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OUTSIDE
    except ModuleNotFoundError as error:
        if not error.name or error.name.partition(".")[0] == "forktool":
            return _report_bug(error, console, _patchset(common))
        console.error(f"this installation is incomplete: it lacks {error.name}")
        console.hint(
            f"{sys.executable} -m pip install forktool; in a clone of it: {sys.executable} -m pip install ."
        )
        return ExitCode.OUTSIDE
    except Exception as error:  # noqa: BLE001 - the one edge: whatever comes here is a bug
        return _report_bug(error, console, _patchset(common))


def _run(common: dict[str, Any], options: dict[str, Any], console: Console) -> int:
    from forktool.adapters.state import State, state_home
    from forktool.commands.project import Project

    path = _patchset(common)
    project = Project(
        path=path, state=State(state_home(path)), console=console, offline=bool(common["offline"])
    )
    module, _, function = str(common["run"]).partition(":")
    command: Callable[..., int] = getattr(import_module(module), function)
    return command(project, **options)


def _patchset(common: dict[str, Any]) -> Path:
    """The patchset that was named, else `patchset/` here or in the nearest folder above, as git finds its own."""
    if common["patchset"]:
        return Path(common["patchset"])
    here = Path("patchset")
    if common["run"] == "forktool.commands.init:init":
        return here
    above = (folder / here for folder in (Path.cwd(), *Path.cwd().parents))
    found = next((folder for folder in above if (folder / "patchset.toml").is_file()), None)
    return Path(os.path.relpath(found)) if found is not None else here


def _report_bug(error: Exception, console: Console, patchset: Path) -> ExitCode:
    from forktool.adapters.state import state_home

    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    log = state_home(patchset) / "logs" / f"bug-{stamp}-{os.getpid()}.log"
    text = f"forktool {__version__}, Python {sys.version}\n{sys.argv!r}\n\n" + "".join(
        traceback.format_exception(error)
    )
    console.error(f"a bug in forktool: {type(error).__name__}: {error}")
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text, encoding="utf-8")
        console.hint(f"please report it with {log}")
    except OSError:
        console.note(text)
    return ExitCode.BUG


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def entry_point() -> NoReturn:
    """The console script."""
    signal.signal(signal.SIGTERM, _terminated)
    sys.exit(main())
