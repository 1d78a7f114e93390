"""One wheel on its way: the series on a tag, the way it goes by rule, and what is written."""

from __future__ import annotations

import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.version import Version

from forktool.adapters.build_backend import Described, patched_metadata, run_build
from forktool.adapters.build_machine import this_machine
from forktool.adapters.git_store import GitStore
from forktool.adapters.package_index import PackageIndex, index_url
from forktool.adapters.patchset_files import WHEEL_PROFILE, Patchset, read_wheel_profile
from forktool.adapters.sbom import make_sbom
from forktool.adapters.state import translated
from forktool.adapters.upstream import Upstream
from forktool.adapters.wheel_download import PublishedWheel, fetch_wheel, local_wheel
from forktool.adapters.wheel_file import open_wheel
from forktool.adapters.wheel_overlay import OverlayResult, overlay
from forktool.adapters.wheel_verify import Verification, verify_wheel
from forktool.commands.project import Project
from forktool.commands.wheel_report import (
    paths_document,
    plan_document,
    show_verification,
    verification_document,
)
from forktool.commands.wheel_series import (
    MemberChanges,
    SeriesOnTag,
    carried_patch,
    carry_series,
    member_changes,
    unpack_tree,
)
from forktool.core.provenance import PROVENANCE_NAME, SBOM_NAME, Provenance, format_provenance
from forktool.core.wheel_names import local_version, parse_wheel_name
from forktool.core.wheel_plan import BuildPlan, Route, build_plan, classify_paths
from forktool.errors import ExitCode, OutsideError, PatchsetError


class Making:
    """The wheel of a series on a tag; `found` says which way it goes.

    Args:
        project: the project.
        store: the private repository.
        patchset: the series.
        upstream: where trees come from.
        tag: where; None is the patchset's base.
        package: whose wheel is patched; None is upstream's own.

    Raises:
        StoppedError, RequestError, PatchsetError: as `carry_series`.
    """

    def __init__(
        self,
        project: Project,
        store: GitStore,
        patchset: Patchset,
        upstream: Upstream,
        *,
        tag: str | None,
        package: str | None,
    ) -> None:
        self._project = project
        self._store = store
        self._patchset = patchset
        self._upstream = upstream
        # A repository may be a URL or a path of this machine: only its last part goes into a wheel.
        self._name = upstream.config.package or PurePosixPath(upstream.config.name).stem
        self._package = package or self._name
        self._profile = read_wheel_profile(patchset, self._package)
        self._series = carry_series(project, patchset, store, upstream, tag)
        self.found = classify_paths(self._series.paths, self._profile.rules)

    def _version(self, base: Version) -> Version:
        label = self._patchset.config.tables.get("wheel", {}).get("label", "fork")
        if not isinstance(label, str):
            raise PatchsetError(f"{self._patchset.path / 'patchset.toml'}: label must be a text")
        return local_version(
            str(base), label=label, count=len(self._series.carried), digest=self._patchset.series.digest
        )

    def build(self, archs: Sequence[str], output: Path, *, only_plan: bool) -> ExitCode:
        """Build from source, or only say how; see `wheel.make`."""
        profile = self._profile.build
        version = self._version(self._series.version)
        made = self._project.state.directory("build") / self._series.root[:12]
        plan = build_plan(
            profile=profile,
            version=version,
            gpus=archs,
            machine=this_machine((*profile.programs, *profile.compiler_launchers)),
            python=sys.executable,
            output=str(output.resolve() if only_plan else made.resolve() / "dist"),
        )
        self._show_route(self._series.version)
        self._show_plan(plan)
        if only_plan:
            self._project.console.document(
                {**self._document(self._series.version), **plan_document(plan), "dry_run": True}
            )
            return ExitCode.DONE
        if not plan.missing:
            with translated(f"cannot empty {made}"):
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir(parents=True)
            self._store.quarantine(self._series.objects)
            unpack_tree(self._store, self._series.root, made / "tree")
            self._project.console.note(f"building in {made}; its output is {made / 'build.log'}")
        run_build(plan, tree=made / "tree", log=made / "build.log")
        built = sorted((made / "dist").glob("*.whl"))
        if len(built) != 1 or parse_wheel_name(built[0].name).version != version:
            raise OutsideError(
                f"the build was to make one wheel of {version}; {made / 'dist'} has "
                f"{', '.join(path.name for path in built) or 'none'}",
                hint=f"build.version-variable in {self._patchset.path / WHEEL_PROFILE} sets its version",
            )
        nothing = MemberChanges(changes={}, base={}, modes={})
        return self._write(local_wheel(built[0]), output, version, self._series.version, nothing)

    def _show_plan(self, plan: BuildPlan) -> None:
        console = self._project.console
        for name, value in plan.environment:
            console.answer(f"export {name}={shlex.quote(value)}")
        console.answer(shlex.join(plan.argv))
        for reason in plan.reasons:
            console.note(reason)
        for missing in plan.missing:
            console.warning(f"missing here: {missing}")

    def overlay(self, source: Path | None, output: Path, *, only_plan: bool) -> ExitCode:
        """Overlay the published wheel and verify the result, or only say what would be done; see `wheel.make`."""
        if self.found.route is Route.OUTSIDE:
            raise PatchsetError(
                f"the series changes nothing that a wheel of {self._package} holds",
                hint=f"[rules] in {self._patchset.path / WHEEL_PROFILE} says what it holds",
            )
        base = self._base(source)
        if only_plan:
            self._show_route(base)
            self._project.console.document({**self._document(base), "dry_run": True})
            return ExitCode.DONE
        published = self._published(source)
        base = parse_wheel_name(published.path.name).version
        self._show_route(base)
        members = member_changes(self._series, [item.path for item in self.found.of(Route.OVERLAY)])
        # A download was checked as a whole; of a file that somebody gives, every member is, before any is copied.
        return self._write(
            published, output, self._version(base), base, members, full_check=source is not None
        )

    def _write(
        self,
        published: PublishedWheel,
        output: Path,
        version: Version,
        base: Version,
        members: MemberChanges,
        *,
        full_check: bool = False,
    ) -> ExitCode:
        provenance = self._provenance(published, version, base, members)
        result = overlay(
            published.path,
            output,
            changes=members.changes,
            version=version,
            extra_dist_info=self._dist_info(published, provenance),
            base=members.base,
            modes=members.modes,
            fsync=True,
            full_check=full_check,
        )
        found = verify_wheel(result.path, published=published.path)
        self._show_result(result, found, base)
        return ExitCode.DONE if found.is_right else ExitCode.NO

    def _base(self, source: Path | None) -> Version:
        """The version of the published wheel: the release, or a build of it such as 0.17.0+cu129."""
        if source is None:
            return self._series.version
        base = parse_wheel_name(source.name).version
        if Version(base.public) != self._series.version:
            raise PatchsetError(
                f"{source.name} is of {base.public}, and the series goes on {self._series.tag}",
                hint=f"forktool wheel {self._upstream.pattern.tag(base.public)} --wheel {source}",
            )
        return base

    def _published(self, source: Path | None) -> PublishedWheel:
        if source is not None:
            return local_wheel(source)
        listing = PackageIndex(
            http=self._upstream.http,
            state=self._project.state,
            url=index_url(self._upstream.config.index_url),
        )
        return fetch_wheel(
            listing,
            self._upstream.http,
            self._project.state,
            self._project.console,
            project=self._package,
            version=self._series.version,
        )

    def _provenance(
        self, published: PublishedWheel, version: Version, base: Version, members: MemberChanges
    ) -> Provenance:
        return Provenance(
            version=str(version),
            package=self._name,
            base_version=str(base),
            base_tag=self._series.tag,
            base_tree=self._series.bare.root,
            tree=self._series.root,
            published_filename=published.path.name,
            published_sha256=published.sha256,
            label=str(self._patchset.config.tables.get("wheel", {}).get("label", "fork")),
            series_digest=self._patchset.series.digest,
            patches=tuple(carried_patch(patch, verdict) for patch, verdict in self._series.carried),
            changed=tuple(
                name
                for name, new in members.changes.items()
                if new is not None and members.base[name] is not None
            ),
            added=tuple(name for name in members.changes if members.base[name] is None),
            deleted=tuple(name for name, new in members.changes.items() if new is None),
        )

    def _dist_info(self, published: PublishedWheel, provenance: Provenance) -> dict[str, bytes]:
        with open_wheel(published.path) as wheel:
            record = wheel.archive.member(f"{wheel.dist_info}/RECORD")
            entry_points = f"{wheel.dist_info}/entry_points.txt"
            described = Described(
                metadata=wheel.read_checked(f"{wheel.dist_info}/METADATA"),
                entry_points=wheel.read_checked(entry_points) if wheel.archive.member(entry_points) else None,
            )
            when = record.date_time if record is not None else (1980, 1, 1, 0, 0, 0)
        files = {
            PROVENANCE_NAME: format_provenance(provenance),
            SBOM_NAME: make_sbom(
                provenance,
                project=parse_wheel_name(published.path.name).project,
                diffs={patch.name: patch.text for patch, _verdict in self._series.carried},
                timestamp=datetime(*when, tzinfo=UTC),
            ),
        }
        if self.found.route is Route.METADATA:
            new = self._metadata(published, described)
            files["METADATA"] = new.metadata
            if new.entry_points is not None:
                files["entry_points.txt"] = new.entry_points
        return files

    def _metadata(self, published: PublishedWheel, described: Described) -> Described:
        self._project.console.note("asking the build backend what the metadata patches change")
        self._store.quarantine(self._series.objects)
        with tempfile.TemporaryDirectory(prefix="forktool-") as scratch:
            return patched_metadata(
                described,
                bare=unpack_tree(self._store, self._series.bare.root, Path(scratch, "bare")),
                patched=unpack_tree(self._store, self._series.root, Path(scratch, "patched")),
                profile=self._profile.build,
                version=parse_wheel_name(published.path.name).version,
                where=published.path.name,
            )

    def _show_route(self, base: Version) -> None:
        console = self._project.console
        version, tag = self._version(base), self._series.tag
        console.answer(f"{self._package} {version}: {_WAYS[self.found.route]}")
        console.answer(f"{len(self._series.carried)} patches on {tag}: {_names(self._series)}")
        for item in self.found.paths:
            console.answer(f"  {item.route:<8}  {item.path}  ({item.rule})")

    def _show_result(self, result: OverlayResult, found: Verification, base: Version) -> None:
        console = self._project.console
        console.document(
            {
                **self._document(base),
                "path": str(result.path),
                "size": result.size,
                "sha256": result.sha256,
                "changed": list(result.changed),
                "added": list(result.added),
                "deleted": list(result.deleted),
                "tags_repaired": result.tags_repaired,
                "verification": verification_document(found),
                "dry_run": False,
            }
        )
        console.answer(f"{result.path}  {result.size} bytes  sha256={result.sha256}")
        show_verification(console, found)
        if found.is_right:
            console.hint(f"pip install --no-deps {shlex.quote(str(result.path))}")

    def _document(self, base: Version) -> dict[str, Any]:
        return {
            "package": self._package,
            "tag": self._series.tag,
            "tree": self._series.root,
            "version": str(self._version(base)),
            "route": self.found.route.value,
            "patches": [
                {"name": patch.name, "verdict": verdict.value} for patch, verdict in self._series.carried
            ],
            "paths": paths_document(self.found),
        }


_WAYS = {
    Route.OUTSIDE: "nothing to do",
    Route.OVERLAY: "an overlay of the published wheel",
    Route.METADATA: "an overlay of the published wheel, with metadata from the build backend",
    Route.NATIVE: "a source build",
}


def _names(series: SeriesOnTag) -> str:
    return ", ".join(f"{patch.name} ({verdict})" for patch, verdict in series.carried)
