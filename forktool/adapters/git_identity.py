"""Who the user is, as git's configuration says."""

from __future__ import annotations

import os
from pathlib import Path

from forktool.adapters import process
from forktool.errors import RequestError


def identity(folder: Path) -> tuple[str, str]:
    """Name and address of the user: GIT_AUTHOR_NAME and GIT_AUTHOR_EMAIL, else user.name and user.email.

    git's own guess from the login and host name is not taken: it ends up in a patch that goes upstream.

    Args:
        folder: whose repository's configuration counts, where it is in one.

    Raises:
        RequestError: either is not set.
        ToolMissingError: git is not installed.
    """
    found = []
    for variable, key in (("GIT_AUTHOR_NAME", "user.name"), ("GIT_AUTHOR_EMAIL", "user.email")):
        value = os.environ.get(variable, "").strip() or _configured(folder, key)
        if not value:
            example = "you@example.org" if key == "user.email" else "'Your Name'"
            raise RequestError(
                f"git does not know who you are: {key} is not set",
                hint=f"git config --global {key} {example}",
            )
        found.append(value)
    return found[0], found[1]


def _configured(folder: Path, key: str) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")
    }
    here = folder if folder.is_dir() else None
    done = process.run(["git", "config", "--get", key], cwd=here, env=environment)
    return done.stdout.decode("utf-8", "replace").strip()
