"""Who we are to GitHub: a token from the environment, a GitHub App, or what `gh` has stored.

A secret is never printed, never an argument of a process, and never in the state folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from forktool.adapters import process
from forktool.errors import RequestError, ToolMissingError

TOKENS = ("FORKTOOL_GITHUB_TOKEN", "GITHUB_TOKEN", "GH_TOKEN")
APP = ("FORKTOOL_GITHUB_APP_ID", "FORKTOOL_GITHUB_APP_INSTALLATION", "FORKTOOL_GITHUB_APP_KEY_FILE")


@dataclass(frozen=True, kw_only=True, slots=True)
class AppLogin:
    """A GitHub App, installed somewhere; `key` is its private key in PEM."""

    app: int
    installation: int
    key: str = field(repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """A token or an app; `source` says where it came from."""

    source: str
    token: str | None = field(default=None, repr=False)
    app: AppLogin | None = None


def find_login(base_url: str, environment: Mapping[str, str] | None = None) -> Login:
    """The login for a host: `FORKTOOL_GITHUB_TOKEN`, an app, `GITHUB_TOKEN`, `GH_TOKEN`, then `gh auth token`.

    Args:
        base_url: of the REST API.
        environment: instead of ours.

    Raises:
        RequestError: there is none, or the app is described in part.
    """
    env = os.environ if environment is None else environment
    first, *others = TOKENS
    if env.get(first):
        return Login(source=first, token=_clean(first, env[first]))
    app = _app(env)
    if app is not None:
        return Login(source=f"GitHub App {app.app}", app=app)
    for name in others:
        if env.get(name):
            return Login(source=name, token=_clean(name, env[name]))
    host = host_of(base_url)
    token = _from_gh(host)
    if token is not None:
        return Login(source="gh", token=token)
    raise RequestError(
        f"there is no login for {host}", hint=f"set {first}, or: gh auth login --hostname {host}"
    )


def host_of(base_url: str) -> str:
    """The host that people log in to, for an API's URL: `github.com` for `https://api.github.com`."""
    host = urlsplit(base_url).hostname or base_url
    return "github.com" if host == "api.github.com" else host


def _clean(name: str, value: str) -> str:
    token = value.strip()
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise RequestError(f"{name} holds no token", hint=f"set {name} to the token alone, on one line")
    return token


def _app(env: Mapping[str, str]) -> AppLogin | None:
    given = {name: env[name] for name in APP if env.get(name)}
    if not given:
        return None
    missing = [name for name in APP if name not in given]
    if missing:
        raise RequestError(f"a GitHub App needs {', '.join(missing)} too", hint=f"set {missing[0]}")
    numbers = []
    for name in APP[:2]:
        if not given[name].isdigit():
            raise RequestError(f"{name} must be a number", hint=f"set {name} as GitHub shows it")
        numbers.append(int(given[name]))
    file = Path(given[APP[2]]).expanduser()
    try:
        key = file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{APP[2]}: cannot read {file}", hint=f"set {APP[2]} to the PEM file") from error
    return AppLogin(app=numbers[0], installation=numbers[1], key=key)


def _from_gh(host: str) -> str | None:
    try:
        done = process.run(["gh", "auth", "token", "--hostname", host], timeout=20)
    except ToolMissingError:
        return None
    token = done.stdout.decode("ascii", "replace").strip()
    return token if done.returncode == 0 and token else None
