"""How a series becomes a wheel: which way by which rule, and the exact plan of a source build.

Nothing here knows vLLM: what an upstream needs comes in as `WheelRules` and `BuildProfile`.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from packaging.version import Version

from forktool.errors import RequestError


class Route(StrEnum):
    """What a path, or a whole series, asks for; from the least to the most work."""

    OUTSIDE = "outside"
    """No wheel holds the file: tests, documentation."""
    OVERLAY = "overlay"
    """A file of the published wheel, copied with the change."""
    METADATA = "metadata"
    """METADATA and entry points come from the build backend, the rest as for an overlay."""
    NATIVE = "native"
    """Something must be compiled or generated: a source build."""


_ORDER = tuple(Route)


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelRules:
    """Shell patterns (`*` crosses `/`) on paths of the source tree; the first kind that matches decides.

    `outside` comes first, then `native`, `metadata` and `shipped`; what matches none is outside too. A
    pattern that ends in `/` stands for everything below that folder.
    """

    outside: tuple[str, ...] = (".github/", "benchmarks/", "docs/", "examples/", "tests/")
    native: tuple[str, ...] = (
        "CMakeLists.txt",
        "cmake/",
        "Cargo.toml",
        "Cargo.lock",
        "build.rs",
        "*.c",
        "*.cc",
        "*.cpp",
        "*.cu",
        "*.cuh",
        "*.h",
        "*.hpp",
        "*.pyx",
        "*.pxd",
        "*.rs",
        "*.proto",
    )
    metadata: tuple[str, ...] = ("pyproject.toml", "setup.py", "setup.cfg")
    shipped: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class PathRoute:
    """Where one path goes, and the rule that sent it there, as the output states it."""

    path: str
    route: Route
    rule: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Classification:
    """The route of a series and of each of its paths, in the order given."""

    route: Route
    paths: tuple[PathRoute, ...]

    def of(self, route: Route) -> tuple[PathRoute, ...]:
        """The paths that go one way."""
        return tuple(item for item in self.paths if item.route is route)


def classify_paths(paths: Iterable[str], rules: WheelRules) -> Classification:
    """Decide how the wheel of a series that touches these paths is made.

    The path that asks for the most decides. A series that touches nothing that a wheel holds is `outside`.
    """
    routed = tuple(_route(path, rules) for path in paths)
    most = max((_ORDER.index(item.route) for item in routed), default=0)
    return Classification(route=_ORDER[most], paths=routed)


def member_of(path: str) -> str:
    """The member that a shipped path becomes: a src layout leaves its `src/` behind."""
    return path.removeprefix("src/")


@dataclass(frozen=True, kw_only=True, slots=True)
class ArchRange:
    """The GPU architectures that a range of CUDA versions can build for.

    `covers` names architectures that run the code of another one: on CUDA 13 a build for 10.0 is made for
    the family and runs on 10.3 as well.
    """

    cuda_from: Version
    cuda_below: Version | None = None
    archs: tuple[str, ...]
    covers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildProfile:
    """What a source build and the metadata hook of one upstream need.

    Attributes:
        version_variable: environment variable that sets the version, or "".
        jobs_variable: environment variable for the number of compile jobs.
        arch_variable: environment variable for the GPU architectures.
        environment: set for every build.
        metadata_environment: set for the metadata hook, above `environment`.
        metadata_skips: build requirements that the metadata hook can do without (normalised names).
        stubs: files of stand-in packages that the metadata hook imports, by path; their text.
        config_settings: given to the build backend.
        archs: for each range of CUDA versions what can be built.
        memory_per_job: bytes that one compile job needs at its peak.
        compiler_launchers: programs looked for in order; the first found caches compilations.
        launcher_environment: what each needs in the environment.
        programs: what must be on PATH for a build.
    """

    version_variable: str = ""
    jobs_variable: str = "MAX_JOBS"
    arch_variable: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    metadata_environment: Mapping[str, str] = field(default_factory=dict)
    metadata_skips: tuple[str, ...] = ()
    stubs: Mapping[str, str] = field(default_factory=dict)
    config_settings: Mapping[str, str] = field(default_factory=dict)
    archs: tuple[ArchRange, ...] = ()
    memory_per_job: int = 4 << 30
    compiler_launchers: tuple[str, ...] = ("sccache", "ccache")
    launcher_environment: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildMachine:
    """What the plan must know of the machine: cores, memory in bytes, programs on PATH, CUDA's version."""

    cores: int
    memory: int
    programs: Container[str]
    cuda: Version | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BuildPlan:
    """A source build, complete: run `argv` with `environment` added, in the patched tree.

    `reasons` has one line for each choice; `missing` is what this machine lacks for it.
    """

    environment: tuple[tuple[str, str], ...]
    argv: tuple[str, ...]
    reasons: tuple[str, ...]
    missing: tuple[str, ...]


GPUS: Mapping[str, tuple[str, ...]] = {
    "ampere": ("8.0", "8.6"),
    "a100": ("8.0",),
    "ada": ("8.9",),
    "l40s": ("8.9",),
    "hopper": ("9.0",),
    "h100": ("9.0",),
    "h200": ("9.0",),
    "blackwell": ("10.0", "10.3", "12.0"),
    "b200": ("10.0",),
    "gb200": ("10.0",),
    "b300": ("10.3",),
    "gb300": ("10.3",),
    "rtx5090": ("12.0",),
    "rtxpro6000": ("12.0",),
    "gb10": ("12.1",),
}
"""Compute capabilities by name (https://developer.nvidia.com/cuda-gpus)."""


def gpu_archs(asked: Iterable[str]) -> tuple[str, ...]:
    """Compute capabilities for names and numbers, sorted: `blackwell` is 10.0, 10.3 and 12.0.

    Raises:
        RequestError: neither a known name nor MAJOR.MINOR.
    """
    found: set[str] = set()
    for text in asked:
        key = text.lower().replace(" ", "").replace("-", "").replace("_", "")
        if key in GPUS:
            found.update(GPUS[key])
        elif key.count(".") == 1 and all(part.isdigit() for part in key.split(".")):
            found.add(key)
        else:
            raise RequestError(
                f"no GPU is called {text!r}", hint=f"give MAJOR.MINOR, or one of {', '.join(sorted(GPUS))}"
            )
    return tuple(sorted(found, key=Version))


def fit_archs(
    archs: Sequence[str], ranges: Sequence[ArchRange], cuda: Version
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The architectures to build on a CUDA version, and a line for each one that another stands in for.

    Raises:
        RequestError: this CUDA version, or the profile, cannot build for one of them.
    """
    span = next(
        (
            item
            for item in ranges
            if cuda >= item.cuda_from and (item.cuda_below is None or cuda < item.cuda_below)
        ),
        None,
    )
    if span is None:
        raise RequestError(f"nothing is known of CUDA {cuda} in the build profile")
    chosen: set[str] = set()
    notes: list[str] = []
    for arch in archs:
        if arch in span.archs:
            chosen.add(arch)
        elif arch in span.covers and span.covers[arch] in span.archs:
            chosen.add(span.covers[arch])
            notes.append(f"{arch} runs what is built for {span.covers[arch]} on CUDA {cuda}")
        else:
            raise RequestError(
                f"CUDA {cuda} and this upstream cannot build for {arch}",
                hint=f"choose from {' '.join(span.archs)}, or another CUDA version",
            )
    return tuple(sorted(chosen, key=Version)), tuple(notes)


def build_plan(
    *,
    profile: BuildProfile,
    version: Version,
    gpus: Sequence[str],
    machine: BuildMachine,
    python: str,
    output: str,
) -> BuildPlan:
    """Plan a source build.

    Args:
        profile: what the upstream needs.
        version: of the wheel, with its local part.
        gpus: names or compute capabilities; none leaves the upstream's own list.
        machine: what to fit into.
        python: the interpreter that builds.
        output: the folder for the wheel.

    Raises:
        RequestError: a GPU that is not known, or that this CUDA version cannot build for.
    """
    environment = dict(profile.environment)
    reasons: list[str] = []
    missing = [f"{program} on PATH" for program in profile.programs if program not in machine.programs]
    if profile.version_variable:
        environment[profile.version_variable] = str(version)
        reasons.append(f"{profile.version_variable}: the version is set, not guessed from git tags")
    by_memory = max(1, machine.memory // profile.memory_per_job)
    jobs = max(1, min(machine.cores, by_memory))
    environment[profile.jobs_variable] = str(jobs)
    gib = 1 << 30
    reasons.append(
        f"{profile.jobs_variable}={jobs}: {machine.cores} cores, and {machine.memory / gib:.0f} GiB of memory"
        f" hold {by_memory} jobs of {profile.memory_per_job / gib:g} GiB"
    )
    if gpus and profile.arch_variable:
        archs = gpu_archs(gpus)
        if machine.cuda is not None:
            archs, notes = fit_archs(archs, profile.archs, machine.cuda)
            reasons += notes
        else:
            missing.append("a CUDA toolkit, whose version decides the list of architectures")
        environment[profile.arch_variable] = " ".join(archs)
        reasons.append(f"{profile.arch_variable}: asked for {' '.join(gpus)}")
    launcher = next((name for name in profile.compiler_launchers if name in machine.programs), None)
    if launcher is not None:
        environment.update(profile.launcher_environment.get(launcher, {}))
        reasons.append(f"{launcher} is on PATH and caches what it compiles")
    elif profile.compiler_launchers:
        reasons.append(
            f"none of {', '.join(profile.compiler_launchers)} is on PATH: the next build starts over"
        )
    settings = [f"--config-setting={key}={value}" for key, value in sorted(profile.config_settings.items())]
    argv = (python, "-m", "build", "--wheel", *settings, "--outdir", output, ".")
    return BuildPlan(
        environment=tuple(sorted(environment.items())),
        argv=argv,
        reasons=tuple(reasons),
        missing=tuple(missing),
    )


def _route(path: str, rules: WheelRules) -> PathRoute:
    for route, patterns in (
        (Route.OUTSIDE, rules.outside),
        (Route.NATIVE, rules.native),
        (Route.METADATA, rules.metadata),
        (Route.OVERLAY, rules.shipped),
    ):
        for pattern in patterns:
            if path.startswith(pattern) if pattern.endswith("/") else fnmatchcase(path, pattern):
                return PathRoute(path=path, route=route, rule=pattern)
    return PathRoute(path=path, route=Route.OUTSIDE, rule="no rule: not in the wheel")
