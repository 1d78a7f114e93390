"""Whether a wheel is right: every hash, every name, and what the usual tools say."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from forktool.adapters import process
from forktool.adapters.sbom import schema_problem
from forktool.adapters.wheel_file import WheelFile, open_wheel
from forktool.core.provenance import PROVENANCE_NAME, SBOM_NAME, Provenance, parse_provenance
from forktool.core.wheel_metadata import headers, is_version_file, set_python_version
from forktool.core.wheel_record import record_problems
from forktool.errors import IntegrityError, ToolMissingError


@dataclass(frozen=True, kw_only=True, slots=True)
class Verification:
    """What was found. The wheel is right where `problems` is empty.

    `checks` names what was done and `not_run` what was not, with the reason; `provenance` is None for a wheel
    that forktool did not make.
    """

    path: Path
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    checks: tuple[str, ...]
    not_run: tuple[str, ...]
    provenance: Provenance | None

    @property
    def is_right(self) -> bool:
        """Whether nothing was found."""
        return not self.problems


@dataclass(slots=True)
class _Findings:
    problems: list[str]
    notes: list[str]
    checks: list[str]
    not_run: list[str]


def verify_wheel(path: Path, *, published: Path | None = None, tools: bool = True) -> Verification:
    """Check a wheel, made here or anywhere.

    Args:
        path: the wheel.
        published: the wheel that it was made of, to compare what check-wheel-contents says.
        tools: run twine and check-wheel-contents where they are installed (`pip install forktool[wheel]`).

    Raises:
        RequestError: the file name is not a wheel's.
        OutsideError: it cannot be read.
    """
    found = _Findings([], [], [], [])
    provenance: Provenance | None = None
    try:
        with open_wheel(path) as wheel:
            found.checks.append("archive, names and RECORD")
            found.problems += record_problems(
                (member.orig_filename for member in wheel.archive.members), wheel.rows, wheel.dist_info
            )
            found.checks.append(f"{sum(bool(row.digest) for row in wheel.rows.values())} hashes")
            found.problems += wheel.find_damage()
            found.checks.append("file name, METADATA, WHEEL and .data agree")
            found.problems += _disagreements(wheel)
            provenance = _read_provenance(wheel, found)
    except IntegrityError as error:
        found.problems.append(error.message)
    if tools and not found.problems:
        _run_tools(path, published, found)
    return Verification(
        path=path,
        problems=tuple(found.problems),
        notes=tuple(found.notes),
        checks=tuple(found.checks),
        not_run=tuple(found.not_run),
        provenance=provenance,
    )


def _disagreements(wheel: WheelFile) -> Iterator[str]:
    described = headers(wheel.archive.read(f"{wheel.dist_info}/WHEEL"))
    tags = tuple(sorted(value for name, value in described if name == "Tag"))
    if tags != wheel.name.tag_lines:
        yield f"WHEEL says {', '.join(tags) or 'no tag'}, and the file name {wheel.name.tag}"
    for member in wheel.archive.members:
        folder, slash, _ = member.filename.partition("/")
        if (
            slash
            and folder.endswith(".data")
            and folder != f"{wheel.dist_info.removesuffix('.dist-info')}.data"
        ):
            yield f"the folder {folder} belongs to another version"
            break


def _read_provenance(wheel: WheelFile, found: _Findings) -> Provenance | None:
    place = f"{wheel.dist_info}/{PROVENANCE_NAME}"
    if wheel.archive.member(place) is None:
        found.notes.append(f"no {PROVENANCE_NAME}: not made by forktool, or before it recorded patches")
        return None
    provenance = parse_provenance(wheel.archive.read(place), where=wheel.label)
    if provenance.version != str(wheel.name.version):
        found.problems.append(f"{PROVENANCE_NAME} is of version {provenance.version}")
    found.problems += _stale_versions(wheel, Version(provenance.base_version))
    for path in (*provenance.changed, *provenance.added):
        if wheel.archive.member(path) is None:
            found.problems.append(f"{path} is missing, which {PROVENANCE_NAME} lists")
    present = [path for path in provenance.deleted if wheel.archive.member(path) is not None]
    found.problems += [f"{path} is there, which {PROVENANCE_NAME} lists as deleted" for path in present]
    found.checks.append("syntax of the changed Python files")
    found.problems += _syntax_problems(wheel, (*provenance.changed, *provenance.added))
    sbom = f"{wheel.dist_info}/{SBOM_NAME}"
    if wheel.archive.member(sbom) is None:
        found.problems.append(f"{SBOM_NAME} is missing")
        return provenance
    try:
        problem = schema_problem(wheel.archive.read(sbom))
    except ToolMissingError as error:
        found.not_run.append(f"CycloneDX schema: {error.message}")
    else:
        found.checks.append("CycloneDX schema")
        if problem is not None:
            found.problems.append(f"{SBOM_NAME}: {problem}")
    return provenance


def _stale_versions(wheel: WheelFile, base: Version) -> Iterator[str]:
    """Python files that still assign the version of the published wheel."""
    version = wheel.name.version
    for member in wheel.archive.members:
        if is_version_file(member.filename):
            content = wheel.archive.read(member.filename)
            if set_python_version(content, (base, Version(base.public)), version) is not None:
                yield f"{member.filename} states the version of the published wheel, not {version}"


def _syntax_problems(wheel: WheelFile, paths: tuple[str, ...]) -> Iterator[str]:
    for path in paths:
        if not path.endswith(".py") or wheel.archive.member(path) is None:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(wheel.archive.read(path), path, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
            yield f"{path}{line}: {error.args[0] if error.args else error}"


def _run_tools(path: Path, published: Path | None, found: _Findings) -> None:
    if _is_installed("twine"):
        found.checks.append("twine check --strict")
        said = _twine_says(path)
        if said is not None and published is not None and _twine_says(published) is not None:
            found.notes.append(f"twine check --strict: {said} (as for {published.name})")
        elif said is not None:
            found.problems.append(f"twine check --strict: {said}")
    else:
        found.not_run.append("twine check --strict: twine is not installed (pip install forktool[wheel])")
    if not _is_installed("check_wheel_contents"):
        found.not_run.append(
            "check-wheel-contents: check-wheel-contents is not installed (pip install forktool[wheel])"
        )
        return
    found.checks.append("check-wheel-contents")
    ours = _contents_codes(path)
    theirs = _contents_codes(published) if published is not None else frozenset()
    worse = sorted(ours - theirs)
    if published is None:
        if worse:
            found.notes.append(
                f"check-wheel-contents: {', '.join(worse)} (no published wheel to compare with)"
            )
    else:
        found.problems += [
            f"check-wheel-contents: {code}, which {published.name} does not have" for code in worse
        ]


def _twine_says(path: Path) -> str | None:
    """What twine finds wrong with the metadata, or None."""
    result = process.run([sys.executable, "-m", "twine", "--no-color", "check", "--strict", path])
    return result.last_line if result.returncode else None


def _contents_codes(path: Path) -> frozenset[str]:
    """The codes such as W002 that check-wheel-contents reports, or its error."""
    result = process.run([sys.executable, "-m", "check_wheel_contents", "--no-config", path])
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    prefix = f"{path}: "
    codes = {line.removeprefix(prefix).partition(":")[0] for line in lines if line.startswith(prefix)} - {
        "OK"
    }
    if result.returncode and not codes:
        codes = {result.last_line}
    return frozenset(codes)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
