"""Upstream's own pre-commit hooks, on the files that a change touches.

They run in a throw-away repository that holds those files and upstream's configuration, not in anybody's checkout.
pre-commit installs what hooks need from where upstream's configuration says; where that cannot be reached, or
pre-commit is not installed, they did not run, which is said and is no failure.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from forktool.adapters import process
from forktool.adapters.git_store import GitStore, GitTree, sealed_environment
from forktool.adapters.state import translated
from forktool.core.objects import Mode, Oid
from forktool.core.pull_request import Hooks
from forktool.errors import OutsideError, ToolMissingError

CONFIG = ".pre-commit-config.yaml"
_FOLDERS = ("tools",)
"""Folders that come along whole: hooks written in the repository live there."""
_FAILED = re.compile(r"^(.+?)\.{3,}(?:\(.*\))?Failed$", re.MULTILINE)
_REASON = re.compile(r"^\s*(?:fatal|error|ERROR): (.+)$", re.MULTILINE)
_SECONDS = 600.0


def run_hooks(store: GitStore, tree: GitTree, paths: Iterable[str]) -> Hooks:
    """Run the hooks on files of a tree.

    Args:
        store: holds the tree.
        tree: upstream with the change.
        paths: the files that the change touches; those that it removes are left out.

    Raises:
        GitError: the throw-away repository could not be made.
        DiskError: there is no room for it.
    """
    if tree.entry(CONFIG) is None:
        return Hooks(ran=False, detail="upstream has no pre-commit configuration")
    touched = [path for path in paths if tree.entry(path) is not None]
    with tempfile.TemporaryDirectory(prefix="forktool-hooks-") as name:
        folder = Path(name)
        _write(store, tree, folder, touched)
        environment = sealed_environment(user_configuration=True)
        for command in (["init", "--quiet", "--template="], ["add", "--all", "--force"]):
            done = process.run(["git", *command], cwd=folder, env=environment)
            if done.returncode:
                return Hooks(ran=False, detail=done.last_line)
        environment |= {"PRE_COMMIT_COLOR": "never", "NO_COLOR": "1"}
        try:
            done = process.run(
                ["pre-commit", "run", "--files", *touched], cwd=folder, env=environment, timeout=_SECONDS
            )
        except ToolMissingError:
            return Hooks(ran=False, detail="pre-commit is not installed")
        except OutsideError as error:
            return Hooks(ran=False, detail=error.message)
    text = done.stdout.decode("utf-8", "replace")
    failed = tuple(dict.fromkeys(hook.strip() for hook in _FAILED.findall(text)))
    if done.returncode == 0:
        return Hooks(ran=True, passed=True)
    if failed:
        return Hooks(ran=True, passed=False, detail=", ".join(failed))
    # pre-commit ends with 3 where a hook's environment cannot be made, and tells git's or pip's reason among its own.
    reason = _REASON.search(text)
    return Hooks(ran=False, detail=reason[1].strip() if reason else done.last_line)


def _write(store: GitStore, tree: GitTree, folder: Path, touched: Iterable[str]) -> None:
    wanted = dict.fromkeys(touched)
    for name, entry in store.read_tree(tree.root).items():
        if entry.mode is Mode.TREE and name in _FOLDERS:
            wanted |= dict.fromkeys(_below(store, entry.oid, f"{name}/"))
        elif entry.mode in (Mode.FILE, Mode.EXECUTABLE):
            wanted[name] = None
    for path in wanted:
        found, content = tree.entry(path), tree.read(path)
        if found is None or content is None or ".." in path.split("/"):
            continue
        target = folder / path
        with translated(f"cannot write {target}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            if found.mode is Mode.SYMLINK:
                target.symlink_to(os.fsdecode(content))
                continue
            target.write_bytes(content)
            if found.mode is Mode.EXECUTABLE:
                target.chmod(0o755)


def _below(store: GitStore, oid: Oid, prefix: str) -> list[str]:
    found: list[str] = []
    for name, entry in store.read_tree(oid).items():
        if entry.mode is Mode.TREE:
            found += _below(store, entry.oid, f"{prefix}{name}/")
        elif entry.mode is not Mode.GITLINK:
            found.append(f"{prefix}{name}")
    return found
