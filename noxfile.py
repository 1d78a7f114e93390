"""Sessions: the operator's call forktool and return its exit code; the developer's test, lint and measure it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["tests", "lint", "types", "workflows"]
nox.options.error_on_missing_interpreters = False


def _forktool(session: nox.Session, *command: str, project: str = ".") -> None:
    """Run forktool, and end nox with its exit code: 3 must not become 1."""
    session.install("--quiet", "-e", project)
    program = Path(session.bin) / "forktool"
    code = subprocess.run([program, *command, *session.posargs], check=False).returncode
    if code:
        sys.exit(code)


@nox.session(default=False)
def rebase(session: nox.Session) -> None:
    """Carry the series to another tag: nox -s rebase -- v0.17.0."""
    _forktool(session, "rebase")


@nox.session(default=False)
def status(session: nox.Session) -> None:
    """The series and its verdict on tags: nox -s status -- --onto v0.16.0..v0.33.0."""
    _forktool(session, "status")


@nox.session(default=False)
def check(session: nox.Session) -> None:
    """Prove the series: lint, round trip, probes."""
    _forktool(session, "check")


@nox.session(default=False)
def diff(session: nox.Session) -> None:
    """The range-diff of the series before and after the last rebase."""
    _forktool(session, "diff")


@nox.session(default=False)
def wheel(session: nox.Session) -> None:
    """The series as a wheel: nox -s wheel [-- TAG], or what else forktool wheel takes."""
    _forktool(session, "wheel", project=".[wheel]")


@nox.session(default=False)
def matrix(session: nox.Session) -> None:
    """The GPU matrix: nox -s matrix -- list | run | report."""
    _forktool(session, "matrix")


@nox.session(default=False)
def pr(session: nox.Session) -> None:
    """The upstream pull request of a patch: nox -s pr -- draft | submit | status."""
    _forktool(session, "pr")


@nox.session(default=False)
def watch(session: nox.Session) -> None:
    """Upstream tags newer than the base, and with --main upstream's branch."""
    _forktool(session, "watch")


@nox.session
def tests(session: nox.Session) -> None:
    """The tests, with coverage; arguments go to pytest."""
    session.install("--quiet", "-e", ".", "--group", "tests")
    # Not in nox's own temporary folder: that would put every test's project below this one's patchset.
    environment = {"COVERAGE_FILE": str(Path(session.virtualenv.location) / "coverage")}
    workers = os.environ.get("FORKTOOL_TEST_WORKERS", "auto")
    session.run(
        "pytest", "-n", workers, "--dist", "loadgroup", "-m", "not slow and not gpu",
        "--cov", "--cov-report=term:skip-covered", *session.posargs, env=environment,
    )  # fmt: skip


@nox.session(default=False)
def tests_slow(session: nox.Session) -> None:
    """The tests that need minutes and gigabytes; FORKTOOL_TEST_CACHE keeps what they fetch."""
    session.install("--quiet", "-e", ".[wheel]", "--group", "tests", "--group", "emulate")
    session.run("pytest", "-m", "slow and not gpu", "--durations=10", *session.posargs)


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Thousands of random series on random upstreams; FUZZ_FACTOR says how many times the suite's budget."""
    session.install("--quiet", "-e", ".", "--group", "tests")
    tests = sorted(str(file) for file in Path("tests/integration").glob("test_fuzz*.py"))
    session.run(
        "pytest", "--hypothesis-profile", "deep", "--hypothesis-show-statistics", *tests, *session.posargs
    )


@nox.session
def lint(session: nox.Session) -> None:
    """Style and form of the code."""
    session.install("--quiet", "--group", "lint")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Strict types."""
    session.install("--quiet", "-e", ".", "--group", "types")
    session.run("mypy")


@nox.session
def workflows(session: nox.Session) -> None:
    """Form and safety of .github/, offline."""
    session.install("--quiet", "--group", "workflows")
    files = sorted(str(file) for file in Path(".github/workflows").glob("*.yml"))
    session.run("zizmor", "--offline", "--persona", "pedantic", "--no-progress", ".github")
    session.run("actionlint")
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)
    session.run("check-jsonschema", "--builtin-schema", "vendor.dependabot", ".github/dependabot.yml")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Ratios against the peers: nox -s bench [-- NAME ...]."""
    session.install("--quiet", "-e", ".")
    missing = [tool for tool in ("git", "quilt", "patch") if shutil.which(tool) is None]
    if missing:
        session.warn(f"not installed, so not compared: {', '.join(missing)}")
    session.run("python", "-m", "benchmarks", *session.posargs)
