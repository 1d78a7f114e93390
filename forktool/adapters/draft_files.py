"""Drafts of pull requests in `.forktool/pr/`: NAME.md for people to read and edit, NAME.json for us."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from forktool.adapters.state import State, translated
from forktool.core.objects import Oid
from forktool.core.series import PatchName
from forktool.errors import PatchsetError, RequestError


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """What a draft was made of.

    Attributes:
        name: the patch.
        patch: the sha256 of its file then.
        base: upstream's branch that it is for.
        onto: the commit of that branch.
        tree: of upstream with the change.
        commit: the change on `onto`.
        written: the sha256 of NAME.md as it was written.
        pushed: the commit that the fork's branch was last made to name by us; None before the first push.
    """

    name: PatchName
    patch: str
    base: str
    onto: Oid
    tree: Oid
    commit: Oid
    written: str
    pushed: Oid | None = None


def body_file(state: State, name: PatchName) -> Path:
    """Where a draft's text is."""
    return state.home / "pr" / f"{name}.md"


def load_draft(state: State, name: PatchName) -> Draft | None:
    """The draft of a patch, None where there is none.

    Raises:
        PatchsetError: its file is damaged.
    """
    file = state.home / "pr" / f"{name}.json"
    if not file.is_file():
        return None
    with translated(f"cannot read {file}"):
        text = file.read_bytes()
    try:
        return Draft(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise PatchsetError(f"{file}: damaged", hint=f"delete it, then: forktool pr draft {name}") from error


def save_draft(state: State, draft: Draft) -> None:
    """Keep what a draft was made of."""
    state.write(state.home / "pr" / f"{draft.name}.json", json.dumps(asdict(draft), indent=1).encode())


def text_of(title: str, body: str) -> str:
    """NAME.md: the title, a blank line, the body."""
    return f"{title}\n\n{body}"


def digest(text: str) -> str:
    """The sha256 of a draft's text, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def was_edited(state: State, draft: Draft) -> bool:
    """Whether a person changed NAME.md since it was written."""
    file = body_file(state, draft.name)
    if not file.is_file():
        return False
    with translated(f"cannot read {file}"):
        return digest(file.read_text(encoding="utf-8")) != draft.written


def read_text(state: State, name: PatchName) -> tuple[str, str]:
    """Title and body as they stand in NAME.md.

    Raises:
        RequestError: there is no such file, or it does not begin with a title and a blank line.
    """
    file = body_file(state, name)
    if not file.is_file():
        raise RequestError(f"{name} has no draft", hint=f"forktool pr draft {name}")
    with translated(f"cannot read {file}"):
        text = file.read_text(encoding="utf-8")
    title, _newline, rest = text.partition("\n")
    if not title.strip() or rest.strip() == "" or not rest.startswith("\n"):
        raise RequestError(f"{file}:1: the first line is the title, the second is blank, then the body")
    return title.strip(), rest.lstrip("\n")
