"""What the tests of real releases have: the index, kept downloads, and forktool on a copy of the patchset."""

from __future__ import annotations

from tests.upstream.conftest import fetched, forktool, home, index

__all__ = ["fetched", "forktool", "home", "index"]
