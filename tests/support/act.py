"""Workflows run on this machine by act, without docker and without the network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_STUBS = {
    "actions/setup-python": """\
inputs: {python-version: {default: ""}}
runs: {using: composite, steps: [{shell: bash, run: "true"}]}
""",
    "actions/upload-artifact": """\
inputs:
  name: {required: true}
  path: {required: true}
  if-no-files-found: {default: warn}
  retention-days: {default: ""}
runs:
  using: composite
  steps:
    - shell: bash
      env: {N: "${{ inputs.name }}", P: "${{ inputs.path }}"}
      run: |
        mkdir -p "$ACT_STORE/$N"
        if [ -d "$P" ]; then cp -R "$P"/. "$ACT_STORE/$N/"; else cp $P "$ACT_STORE/$N/"; fi
""",
    "actions/download-artifact": """\
inputs: {name: {required: true}, path: {required: true}}
runs:
  using: composite
  steps:
    - shell: bash
      env: {N: "${{ inputs.name }}", P: "${{ inputs.path }}"}
      run: mkdir -p "$P" && cp -R "$ACT_STORE/$N"/. "$P/"
""",
}
_NOX = """\
#!{python}
import os, pathlib, sys
words = sys.argv[1:]
session = words[words.index("-s") + 1]
rest = words[words.index("--") + 1 :] if "--" in words else []
with open(os.environ["ACT_LOG"], "a") as log:
    log.write(" ".join(["nox", session, *rest]) + "\\n")
if session == "wheel" and rest[:1] != ["verify"]:
    folder = pathlib.Path(rest[rest.index("--output") + 1])
    folder.mkdir(exist_ok=True)
    (folder / "demo-1.0+fork.1-py3-none-any.whl").write_bytes(b"wheel")
elif session == "wheel":
    print("verified", rest[1])
elif session == "matrix" and rest[0] == "list":
    print('{{"include":[{{"cell":"good","timeout":5}},{{"cell":"bad","timeout":5}},{{"cell":"last","timeout":5}}]}}')
elif session == "matrix" and rest[0] == "run":
    assert pathlib.Path(rest[rest.index("--wheel") + 1]).read_bytes() == b"wheel"
    sys.exit(int(rest[rest.index("-k") + 1] == "=" + os.environ.get("BAD_CELL", "")))
elif session == "matrix":
    pathlib.Path(rest[rest.index("--markdown") + 1]).write_text("| cell | ok |\\n")
else:
    sys.path.insert(0, {root!r})
    from forktool.cli import main
    sys.exit(main([session, *rest]))
"""
_PYTHON = '#!/bin/sh\n[ "$1 $2" = "-m pip" ] || exec {python} "$@"\n'
_GH = '#!/bin/sh\necho "gh $*" >> "$ACT_LOG"\n[ "$1 $2" != "pr list" ] || cat "$ACT_OPEN_PULLS"\n'


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a workflow ended: exit code, all that it said, and what nox and gh were called with."""

    code: int
    text: str
    calls: list[str]


class Act:
    """A repository with this one's workflows, in `project`, and its remote."""

    def __init__(self, project: Path, scratch: Path) -> None:
        self.project = project
        self.store = scratch / "artifacts"
        self.remote = scratch / "remote.git"
        self.log = scratch / "calls"
        self.open_pulls = scratch / "open-pulls"
        self.open_pulls.write_text("")
        self._scratch = scratch
        self._bin = scratch / "bin"
        self._bin.mkdir()
        for name, text in (("nox", _NOX), ("python", _PYTHON), ("gh", _GH)):
            (self._bin / name).write_text(
                text.format(python=sys.executable, root=str(ROOT)) if name != "gh" else text
            )
            (self._bin / name).chmod(0o755)
        shutil.copytree(ROOT / ".github", project / ".github")
        (project / ".gitignore").write_text(".forktool/\n")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("Start")
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.remote)], check=True)
        self.git("remote", "add", "origin", str(self.remote))
        self.git("push", "--quiet", "origin", "main")

    def git(self, *args: str) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        done = subprocess.run(
            ["git", *who, *args], cwd=self.project, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def run(
        self,
        workflow: str,
        *,
        inputs: Mapping[str, object],
        event: str = "workflow_dispatch",
        **environment: str,
    ) -> Ran:
        """Run one workflow as a dispatch would."""
        payload = {"inputs": dict(inputs), "repository": {"default_branch": "main", "full_name": "us/fork"}}
        event_file = self._scratch / "event.json"
        event_file.write_text(json.dumps(payload))
        self.log.write_text("")
        shutil.rmtree(self.store, ignore_errors=True)
        command = [
            "act", event, "--workflows", f".github/workflows/{workflow}", "--eventpath", str(event_file),
            "--platform", "ubuntu-24.04=-self-hosted", "--platform", "self-hosted=-self-hosted",
            "--secret", "FORKTOOL_GITHUB_TOKEN=tok_secret",
            "--concurrent-jobs", "1", "--defaultbranch", "main", *self._stubs(workflow),
        ]  # fmt: skip
        done = subprocess.run(
            command,
            cwd=self.project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            env={
                **os.environ,
                "PATH": f"{self._bin}:{os.environ['PATH']}",
                "ACT_STORE": str(self.store),
                "ACT_LOG": str(self.log),
                "ACT_OPEN_PULLS": str(self.open_pulls),
                **environment,
            },
        )
        # act itself asks gh for a token.
        calls = [call for call in self.log.read_text().splitlines() if call != "gh auth token"]
        return Ran(code=done.returncode, text=done.stdout, calls=calls)

    def _stubs(self, workflow: str) -> list[str]:
        """Each action that the workflow pins, as a folder of ours at that very commit."""
        words: list[str] = []
        text = (self.project / ".github/workflows" / workflow).read_text()
        for name, commit in sorted(set(re.findall(r"uses: (\S+)@([0-9a-f]{40})", text))):
            if name in _STUBS:
                folder = self._scratch / "stubs" / name
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "action.yml").write_text(f"name: stub\n{_STUBS[name]}")
                words += ["--local-repository", f"{name}@{commit}={folder}"]
        return words
