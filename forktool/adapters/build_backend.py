"""An upstream's own build backend (PEP 517): its metadata hook, and a source build.

The only import of `build`, which makes the isolated environment and calls the hooks.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from forktool.adapters import process
from forktool.adapters.state import translated
from forktool.core.wheel_metadata import merge_entry_points, merge_metadata
from forktool.core.wheel_plan import BuildPlan, BuildProfile
from forktool.errors import ForktoolError, OutsideError, PatchsetError, ToolMissingError

_HOOK_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Described:
    """What a build backend says of a tree: METADATA, and entry_points.txt or None where it has none."""

    metadata: bytes
    entry_points: bytes | None


def describe_trees(
    trees: Sequence[Path], *, profile: BuildProfile, version: Version
) -> tuple[Described, ...]:
    """Ask the backend for the metadata of some trees, without building them.

    One isolated environment serves all; its requirements are the first tree's, less `profile.metadata_skips`,
    and `profile.stubs` stand in for what setup.py imports. The hook may write into the trees.

    Args:
        trees: unpacked source trees.
        profile: what the upstream needs.
        version: what to state; see `profile.version_variable`.

    Raises:
        ToolMissingError: `build` is not installed.
        OutsideError: the environment cannot be made.
        PatchsetError: a hook fails; the message has its last line.
    """
    try:
        from build import BuildBackendException, BuildException, ProjectBuilder
        from build.env import DefaultIsolatedEnv
    except ImportError as error:
        raise ToolMissingError(f"{error.name} is not installed", hint="pip install build") from error

    try:
        with (
            warnings.catch_warnings(),
            tempfile.TemporaryDirectory(prefix="forktool-") as scratch,
            DefaultIsolatedEnv() as env,
        ):
            warnings.simplefilter("ignore")  # `build` repeats the backend's warnings as its own
            stubs = Path(scratch, "stubs")
            _write_stubs(stubs, profile.stubs)
            runner = _Runner(
                {
                    **(env.make_extra_environ() or {}),
                    **profile.environment,
                    **profile.metadata_environment,
                    **({profile.version_variable: str(version)} if profile.version_variable else {}),
                    "PYTHONPATH": str(stubs),
                }
            )
            described: list[Described] = []
            for number, tree in enumerate(trees):
                builder = ProjectBuilder(tree, python_executable=env.python_executable, runner=runner)
                if number == 0:
                    env.install(_without(builder.build_system_requires, profile.metadata_skips))
                more = _without(
                    builder.get_requires_for_build("wheel", profile.config_settings), profile.metadata_skips
                )
                if more:
                    env.install(more)
                out = Path(scratch, f"out{number}")
                out.mkdir()
                folder = builder.prepare("wheel", out, profile.config_settings)
                if folder is None:
                    raise OutsideError(
                        f"the build backend of {tree} has no prepare_metadata_for_build_wheel",
                        hint="build from source: forktool wheel --print",
                    )
                entry_points = Path(folder, "entry_points.txt")
                described.append(
                    Described(
                        metadata=Path(folder, "METADATA").read_bytes(),
                        entry_points=entry_points.read_bytes() if entry_points.is_file() else None,
                    )
                )
            return tuple(described)
    except BuildBackendException as error:
        if isinstance(error.exception, ForktoolError):
            raise error.exception from None
        raise PatchsetError(f"the build backend cannot describe the tree: {error}") from error
    except process.FailedError as error:
        raise OutsideError(
            f"the build requirements cannot be installed: {_last_line(error.output)}",
            hint="check the network and PIP_INDEX_URL, then try again",
        ) from error
    except BuildException as error:
        raise PatchsetError(f"the tree has no build backend that can be called: {error}") from error


def patched_metadata(
    published: Described,
    *,
    bare: Path,
    patched: Path,
    profile: BuildProfile,
    version: Version,
    where: str,
) -> Described:
    """The published metadata with what the patches change in it, and nothing else.

    The backend is asked about both trees, so what differs between this machine and upstream's cancels out.

    Args:
        published: from the wheel.
        bare: the base's tree, unpacked; it may be written to.
        patched: the same with the series; it may be written to.
        profile: what the upstream needs.
        version: of the published wheel.
        where: what messages call the wheel.

    Raises:
        PatchsetError: a hook fails, or a difference does not fit the published files.
        ToolMissingError, OutsideError: as `describe_trees`.
    """
    before, after = describe_trees((bare, patched), profile=profile, version=version)
    metadata = merge_metadata(published.metadata, bare=before.metadata, patched=after.metadata, where=where)
    if before.entry_points == after.entry_points:
        return Described(metadata=metadata, entry_points=published.entry_points)
    entry_points = merge_entry_points(
        published.entry_points or b"",
        bare=before.entry_points or b"",
        patched=after.entry_points or b"",
        where=where,
    )
    return Described(metadata=metadata, entry_points=entry_points or None)


def run_build(plan: BuildPlan, *, tree: Path, log: Path) -> None:
    """Run a source build; everything it prints goes to `log`.

    Raises:
        ToolMissingError: the plan names something that is missing here.
        OutsideError: the build failed; the message names the log.
    """
    if plan.missing:
        raise ToolMissingError(
            f"a source build needs {'; '.join(plan.missing)}",
            hint="forktool wheel --print shows the build for another machine",
        )
    with translated(f"cannot write {log}"):
        log.parent.mkdir(parents=True, exist_ok=True)
        stream = log.open("wb")
    with stream:
        running = process.start(
            plan.argv,
            cwd=tree,
            env={**os.environ, **dict(plan.environment)},
            stdin=None,
            stdout=stream,
            stderr=stream,
            new_session=False,
        )
        status = running.wait()
    if status:
        lines = log.read_bytes().decode("utf-8", "replace").strip().splitlines()
        raise OutsideError(
            f"the build failed (exit status {status}): {lines[-1] if lines else 'it printed nothing'}",
            hint=f"less {log}",
        )


class _Runner:
    """How `build` starts a hook: through our one door to other programs, its output kept for the error."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def __call__(
        self, cmd: Sequence[str], cwd: str | None = None, extra_environ: Mapping[str, str] | None = None
    ) -> None:
        result = process.run(
            cmd,
            cwd=Path(cwd) if cwd is not None else None,
            env={**os.environ, **self._environment, **(extra_environ or {})},
            timeout=_HOOK_SECONDS,
        )
        if result.returncode:
            raise PatchsetError(
                f"the build backend cannot describe the tree: {result.last_line}",
                hint="forktool -v wheel shows the hook that failed",
            )


def _without(requirements: set[str], skips: Sequence[str]) -> set[str]:
    kept: set[str] = set()
    for text in requirements:
        try:
            name = canonicalize_name(Requirement(text).name)
        except InvalidRequirement:
            name = canonicalize_name(text)
        if name not in skips:
            kept.add(text)
    return kept


def _last_line(output: object) -> str:
    text = output.decode("utf-8", "replace") if isinstance(output, bytes) else str(output or "")
    return (text.strip().splitlines() or ["the installer printed nothing"])[-1]


def _write_stubs(root: Path, stubs: Mapping[str, str]) -> None:
    with translated(f"cannot write {root}"):
        root.mkdir(parents=True, exist_ok=True)
        for path, text in stubs.items():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8")
