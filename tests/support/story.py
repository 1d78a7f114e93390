"""Tests of the command line read as stories: an upstream that moves on, a fork that follows."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forktool.cli import main

# The format of a patch file, as git-format-patch(1) names it; written out so that a test does not lean on the product.
_FORMAT = (
    "format-patch", "--keep-subject", "--full-index", "--binary", "--zero-commit", "--no-signature", "--no-stat",
    "--no-numbered", "--stdout", "-1",
)  # fmt: skip
_WHO = {"NAME": "A Maintainer", "EMAIL": "maintainer@example.org"}
_EPOCH = 1_750_000_000

Files = Mapping[str, str | bytes | None]


@dataclass(frozen=True, slots=True)
class Result:
    """How a command line ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The answer of --json."""
        return json.loads(self.out)

    @property
    def verdicts(self) -> dict[str, str]:
        """Patch to verdict, of `rebase --json`."""
        return {patch["name"]: patch["verdict"] for patch in self.document["patches"]}

    def patch(self, name: str) -> Any:
        """The entry of one patch in the JSON answer."""
        return next(patch for patch in self.document["patches"] if patch["name"] == name)


class Story:
    """An upstream repository that tests write history into, and a forktool project on it."""

    def __init__(self, *, project: Path, upstream: Path, read_output: Callable[[], Any]) -> None:
        self.project = project
        self.upstream = upstream
        self._read_output = read_output
        self._clock = _EPOCH
        self._edits = project.parent / "edits"
        upstream.mkdir()
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "uploadpack.allowFilter", "true")
        self.git("config", "uploadpack.allowAnySHA1InWant", "true")

    def git(
        self,
        *args: str,
        cwd: Path | None = None,
        check: bool = True,
        author: tuple[str, str, str] | None = None,
    ) -> str:
        """Run git, in upstream unless told otherwise; time ticks a second a call."""
        self._clock += 1
        environment = dict(os.environ)
        for role in ("AUTHOR", "COMMITTER"):
            environment |= {f"GIT_{role}_{key}": value for key, value in _WHO.items()}
            environment[f"GIT_{role}_DATE"] = f"{self._clock} +0000"
        if author is not None:
            keys = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_DATE")
            environment |= dict(zip(keys, author, strict=True))
        done = subprocess.run(
            ["git", *args], cwd=cwd or self.upstream, env=environment, capture_output=True, check=False
        )
        if check and done.returncode:
            raise AssertionError(f"git {' '.join(args)}: {done.stderr.decode()}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, files: Files, *, root: Path | None = None) -> None:
        """Write files; None removes one."""
        for name, content in files.items():
            path = (root or self.upstream) / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def release(self, tag: str, files: Files | None = None, *, message: str | None = None) -> str:
        """Upstream commits these files and tags the result; returns the commit."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message or f"Release {tag}")
        self.git("tag", "--force", tag)
        return self.git("rev-parse", "HEAD").strip()

    def commit(self, files: Files, message: str) -> str:
        """Upstream commits these files; returns the commit."""
        self.write(files)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    def start(self, base: str) -> None:
        """Start the patchset on a tag."""
        result = self.run("init", "--repository", str(self.upstream), "--base", base)
        assert result.code == 0, result.err

    def patch(
        self,
        name: str,
        files: Files,
        *,
        message: str | None = None,
        probe: str | None = None,
        edit: Callable[[Path], None] | None = None,
        author: tuple[str, str, str] | None = None,
    ) -> None:
        """Append a patch made with plain git: these files on the base with the patches so far.

        Args:
            name: what the series calls it.
            files: what it writes and removes.
            message: its message, byte for byte.
            probe: the body of its probe.
            edit: more changes, made in the work tree whose root it is given.
            author: name, address and date in git's raw form.
        """
        self._checkout()
        self.write(files, root=self._edits)
        if edit is not None:
            edit(self._edits)
        text = message or (
            f"Change for {name}\n\nReason: a test needs {name}\n"
            "Signed-off-by: A Maintainer <maintainer@example.org>\n"
        )
        self.git("add", "--all", "--force", cwd=self._edits)
        self.git("commit", "--quiet", "--cleanup=verbatim", "--message", text, cwd=self._edits, author=author)
        folder = self.project / "patchset"
        self._format(folder / f"{name}.patch")
        with (folder / "series").open("a") as series:
            series.write(f"{name}.patch\n")
        if probe is not None:
            self.probe(name, probe)

    def _format(self, target: Path) -> None:
        done = subprocess.run(
            ["git", *_FORMAT], cwd=self._edits, capture_output=True, check=True, env=dict(os.environ)
        )
        target.write_bytes(done.stdout)

    def _checkout(self) -> None:
        if not self._edits.exists():
            base = next(
                line.split('"')[1] for line in (self.project / "patchset/patchset.toml").read_text().splitlines()
                if line.startswith("tag = ") and "{" not in line
            )  # fmt: skip
            self.git("clone", "--quiet", str(self.upstream), str(self._edits), cwd=self.project)
            self.git("checkout", "--quiet", "--detach", base, cwd=self._edits)

    def probe(self, name: str, body: str) -> None:
        """Write a probe: the body of one test function that takes `tree`."""
        folder = self.project / "patchset" / "probes"
        folder.mkdir(exist_ok=True)
        lines = "".join(f"    {line}\n" for line in body.splitlines())
        (folder / f"{name}.py").write_text(f"def test_it(tree):\n{lines}")

    def run(self, *argv: str) -> Result:
        """Run forktool in the project."""
        self._read_output()
        code = main(argv)
        output = self._read_output()
        return Result(code, output.out, output.err)

    @property
    def applied(self) -> Path:
        """Where `carried` and `carried_tree` write the series."""
        return self.project.parent / "applied"

    def _apply(self) -> None:
        result = self.run("apply", str(self.applied), *(["--force"] if self.applied.exists() else []))
        assert result.code == 0, result.err

    def carried(self, path: str) -> str:
        """The text of a file with the whole series applied to its base."""
        self._apply()
        return (self.applied / path).read_text()

    def carried_tree(self) -> str:
        """The tree id of the whole series applied to its base."""
        self._apply()
        return self.git("rev-parse", "HEAD^{tree}", cwd=self.applied).strip()

    def cherry_picked_tree(self, tag: str) -> str:
        """The tree id that plain `git cherry-pick` gives for the patches as they were made, on another tag."""
        base = self.git("merge-base", "HEAD", "origin/HEAD", cwd=self._edits).strip()
        commits = self.git("rev-list", "--reverse", f"{base}..HEAD", cwd=self._edits).split()
        self.git("fetch", "--quiet", "--tags", "origin", cwd=self._edits)
        self.git("checkout", "--quiet", "--force", "--detach", tag, cwd=self._edits)
        self.git("cherry-pick", "--allow-empty", "--keep-redundant-commits", *commits, cwd=self._edits)
        return self.git("rev-parse", "HEAD^{tree}", cwd=self._edits).strip()

    def require(self, *wanted: str) -> None:
        """Have `check` ask for these of the policy's demands only: probe, reason, signed-off-by."""
        lines = [f"{name} = {str(name in wanted).lower()}" for name in ("probe", "reason", "signed-off-by")]
        with (self.project / "patchset/patchset.toml").open("a") as config:
            config.write("\n[policy]\n" + "".join(f"{line}\n" for line in lines))

    def snapshot(self) -> dict[str, bytes]:
        """Every file of the patchset."""
        root = self.project / "patchset"
        return {
            str(file.relative_to(root)): file.read_bytes()
            for file in sorted(root.rglob("*"))
            if file.is_file() and "__pycache__" not in file.parts
        }
