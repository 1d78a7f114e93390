"""GitHub's refusals as one line and a hint each.

The headers are GitHub's: `X-OAuth-Scopes` and `X-Accepted-OAuth-Scopes` for classic tokens (docs.github.com, "Scopes
for OAuth apps"), `X-Accepted-GitHub-Permissions` for fine-grained ones ("Permissions required for fine-grained
personal access tokens"), `X-RateLimit-*` and `Retry-After` ("Rate limits for the REST API").
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from forktool.errors import ForktoolError, NetworkError, OutsideError, RequestError

LOGIN_HINT = "set FORKTOOL_GITHUB_TOKEN to a token that is valid, or: gh auth login"


class RefusedError(OutsideError):
    """GitHub answered, and refused; `status` is HTTP's, `lacks_scope` tells that another token may be let in."""

    def __init__(
        self, message: str, *, status: int, lacks_scope: bool = False, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.lacks_scope = lacks_scope


class RateLimitedError(NetworkError):
    """GitHub wants us to wait longer than we may."""


def refusal(
    doing: str,
    host: str,
    status: int,
    document: Any,
    headers: Mapping[str, str],
    *,
    now: datetime | None = None,
) -> ForktoolError:
    """The error for an answer of 400 or above.

    Args:
        doing: what was asked for, as `read vllm-project/vllm`.
        host: that was asked.
        status: HTTP's.
        document: the answer, decoded, or its text.
        headers: of the answer.
        now: for the time of a limit's end.
    """
    fields = {name.lower(): value for name, value in headers.items()}
    said = _message(document)
    if status in (403, 429) and _is_rate_limit(said, fields, status):
        return rate_limited(host, _reset(fields, now or datetime.now(UTC)))
    if status == 401:
        return RefusedError(f"{host} refuses the login (401): {said}", status=401, hint=LOGIN_HINT)
    if status == 403:
        return _forbidden(doing, host, said, fields)
    if status == 404 and (lacking := _lacking_scope(doing, fields, status)) is not None:
        # GitHub hides a private repository from a token that may not see it behind a 404.
        return lacking
    if status == 404:
        return RefusedError(
            f"cannot {doing}: {host} has no such thing, or the login may not see it (404)",
            status=404,
            hint="check the name in patchset.toml; a private repository needs a token with the scope repo",
        )
    if status == 422:
        reasons = tuple(_reasons(document))
        return RefusedError(
            f"cannot {doing}: {'; '.join(reasons) or said} (422)",
            status=422,
            hint="correct what it names, then run the command again",
        )
    return RefusedError(
        f"cannot {doing}: {host} answers {status} {said}".rstrip(),
        status=status,
        hint="run the command again",
    )


def rate_limited(host: str, until: datetime) -> RateLimitedError:
    """The error for a limit that ends at `until`."""
    seconds = max(1, round((until - datetime.now(UTC)).total_seconds()))
    return RateLimitedError(
        f"{host} limits the rate of requests until {until:%H:%M:%S} UTC, {seconds} s from now",
        hint=f"run the command again then, or with --wait {seconds + 1}",
    )


def unreached(host: str, error: OSError) -> NetworkError:
    """The error for a host that did not answer; `error` is what requests raised, known by the name of its class."""
    kinds = {cls.__name__ for cls in type(error).__mro__}
    reason = _innermost(error)
    if "SSLError" in kinds:
        return NetworkError(
            f"{host}: the TLS certificate was refused: {reason}",
            hint="set REQUESTS_CA_BUNDLE to your authority's certificate",
        )
    if "ProxyError" in kinds:
        return NetworkError(f"{host}: the proxy failed: {reason}", hint="check HTTPS_PROXY and NO_PROXY")
    if "Timeout" in kinds:
        return NetworkError(f"{host} did not answer in time", hint="run the command again")
    return NetworkError(
        f"cannot reach {host}: {reason}", hint="check the network and the proxy settings; nothing was changed"
    )


def _innermost(error: BaseException) -> str:
    seen: BaseException = error
    while True:
        inner = getattr(seen, "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((item for item in reversed(seen.args) if isinstance(item, BaseException)), None)
        if inner is None or inner is seen:
            break
        seen = inner
    text = str(getattr(seen, "strerror", None) or seen).strip()
    # urllib3 2 writes `HTTPConnection(host='…', port=…): Failed to …: [Errno 111] Connection refused`.
    return re.sub(r"^.*\[Errno -?\d+\] |^\S+\(.*?\): |^<.*?>: ", "", text) or type(seen).__name__


def _message(document: Any) -> str:
    if isinstance(document, bytes):
        document = document.decode("utf-8", "replace")
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            return document.strip().splitlines()[0][:200] if document.strip() else ""
    return str(document.get("message", "")) if isinstance(document, dict) else ""


def _reasons(document: Any) -> list[str]:
    errors = document.get("errors") if isinstance(document, dict) else None
    found: list[str] = []
    for item in errors if isinstance(errors, list) else []:
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            found.append(
                str(item.get("message") or f"{item.get('field', 'it')} is {item.get('code', 'invalid')}")
            )
    return found


def _is_rate_limit(said: str, fields: Mapping[str, str], status: int) -> bool:
    return (
        status == 429
        or "rate limit" in said.lower()
        or "abuse detection" in said.lower()
        or ("retry-after" in fields and status == 403)
    )


def _reset(fields: Mapping[str, str], now: datetime) -> datetime:
    after = fields.get("retry-after", "")
    if after.isdigit():
        return now + timedelta(seconds=int(after))
    reset = fields.get("x-ratelimit-reset", "")
    if reset.isdigit() and fields.get("x-ratelimit-remaining") == "0":
        return datetime.fromtimestamp(int(reset), UTC)
    # "wait for at least one minute" is what the documentation asks for when the answer says nothing.
    return now + timedelta(minutes=1)


def _forbidden(doing: str, host: str, said: str, fields: Mapping[str, str]) -> ForktoolError:
    if "archived" in said.lower():
        return RequestError(f"cannot {doing}: the repository is archived", hint="it takes no pull requests")
    if sso := fields.get("x-github-sso"):
        url = sso.partition("url=")[2] or f"https://{host}/settings/tokens"
        return RefusedError(
            f"cannot {doing}: the token is not authorised for that organisation (403)",
            status=403,
            hint=f"authorise it at {url}",
        )
    if (lacking := _lacking_scope(doing, fields, 403)) is not None:
        return lacking
    permissions = fields.get("x-accepted-github-permissions")
    if permissions:
        return RefusedError(
            f"cannot {doing}: the token lacks the permission {permissions} (403)",
            status=403,
            hint=f"give the token {permissions} for that repository",
        )
    return RefusedError(
        f"cannot {doing}: {host} forbids it: {said} (403)",
        status=403,
        hint="check what the login may do there",
    )


def _lacking_scope(doing: str, fields: Mapping[str, str], status: int) -> RefusedError | None:
    """The error where a classic token has none of the scopes that would do; None where that is not the reason."""
    accepted = _scopes(fields.get("x-accepted-oauth-scopes", ""))
    held = _scopes(fields.get("x-oauth-scopes", ""))
    if "x-oauth-scopes" not in fields or not accepted or accepted & held:
        return None
    has = f"it has {', '.join(sorted(held))}" if held else "it has none"
    return RefusedError(
        f"cannot {doing}: the token lacks the scope {' or '.join(sorted(accepted))}; {has} ({status})",
        status=status,
        lacks_scope=True,
        hint=f"gh auth refresh --scopes {min(accepted)}, or make a token that has it",
    )


def _scopes(header: str) -> set[str]:
    return {scope.strip() for scope in header.split(",") if scope.strip()}
