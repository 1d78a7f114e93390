"""Wheels for attribution: the bare upstream one, and the series with patches left out."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from forktool.adapters.console import Console, Verbosity
from forktool.adapters.environments import Wheel, read_wheel
from forktool.adapters.state import translated
from forktool.commands.matrix_leaving_out import leave_out, write_series
from forktool.commands.project import Project
from forktool.commands.wheel import make
from forktool.errors import OutsideError, RequestError


class Wheels:
    """Makes the wheels that attribution asks for, once each.

    Args:
        project: whose series it is.
        wheel: the wheel under test.
        bare: the published wheel; None looks among the downloads for the one that the wheel's record names.
        given: wheels that were made elsewhere, by the name of the patch that is left out.
    """

    def __init__(
        self, project: Project, wheel: Wheel, *, bare: Path | None, given: Mapping[str, Path]
    ) -> None:
        self._project = project
        self._wheel = wheel
        self._bare = bare
        self._given = given
        self._made: dict[tuple[str, ...] | None, Wheel] = {(): wheel}

    @property
    def patches(self) -> tuple[str, ...]:
        """The patches in the wheel, in the series' order; none where the wheel carries no record."""
        patches = (self._wheel.provenance or {}).get("patches")
        names = (
            [item.get("name") for item in patches if isinstance(item, dict)]
            if isinstance(patches, list)
            else []
        )
        return tuple(str(name) for name in names if name) or tuple(self._given)

    def without(self, names: tuple[str, ...] | None) -> Wheel:
        """The wheel without some patches; None is the bare upstream one.

        Raises:
            OutsideError, PatchsetError: it cannot be made.
            RequestError: the published wheel is not here.
        """
        if names not in self._made:
            self._made[names] = self._bare_wheel() if names is None else self._overlaid(names)
        return self._made[names]

    def _bare_wheel(self) -> Wheel:
        if self._bare is not None:
            return read_wheel(self._bare)
        record = self._wheel.provenance or {}
        name, sha256 = record.get("published_filename"), record.get("published_sha256")
        for path in sorted(self._project.state.home.glob(f"downloads/**/{name}")) if name else ():
            wheel = read_wheel(path)
            if wheel.sha256 == sha256:
                return wheel
        raise RequestError(
            f"the published wheel {name or ''} is not here, to run on it".replace("  ", " "),
            hint="forktool matrix run --bare FILE",
        )

    def _overlaid(self, names: tuple[str, ...]) -> Wheel:
        if len(names) == 1 and names[0] in self._given:
            return read_wheel(self._given[names[0]])
        output = self._project.state.directory("matrix", "wheels", self._wheel.sha256[:12], "-".join(names))
        with self._project.store() as store:
            patchset = self._project.read()
            with self._project.upstream(patchset, store) as upstream:
                patches = leave_out(patchset, store, upstream, names)
        if not patches:
            return self._bare_wheel()
        with tempfile.TemporaryDirectory(prefix="forktool-") as scratch:
            copy = Path(scratch) / "patchset"
            with translated(f"cannot copy {self._project.path}"):
                shutil.copytree(self._project.path, copy, ignore=shutil.ignore_patterns("__pycache__"))
                write_series(copy, patches, names)
            silent = Console(verbosity=Verbosity.QUIET, stdout=io.StringIO(), stderr=io.StringIO())
            make(
                replace(self._project, path=copy, console=silent),
                tag=self._wheel.base_tag,
                source=self._bare_wheel().path,
                package=self._bare_wheel().name,
                archs=(),
                output=output,
                only_plan=False,
            )
        made = sorted(output.glob("*.whl"), key=lambda path: path.stat().st_mtime)
        if not made:
            raise OutsideError(f"no wheel was made without {', '.join(names)}")
        return read_wheel(made[-1])
