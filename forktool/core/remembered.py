"""Functions of file contents that remember their last answers, by their number and by the bytes they were asked about.

`functools.lru_cache` counts answers alone: sixty-four versions of a file of 50 MB would stay in memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Answer = TypeVar("_Answer")


def remembered(
    *, count: int, size: int
) -> Callable[[Callable[_Arguments, _Answer]], Callable[_Arguments, _Answer]]:
    """Remember the last answers of a pure function.

    Args:
        count: so many answers at most.
        size: in bytes; so much of what was asked about, all answers together. The last one stays, whatever its size.
    """

    def wrap(function: Callable[_Arguments, _Answer]) -> Callable[_Arguments, _Answer]:
        known: OrderedDict[object, tuple[_Answer, int]] = OrderedDict()
        lock = Lock()
        held = 0

        @wraps(function)
        def ask(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Answer:
            nonlocal held
            key = (args, *kwargs.items())
            with lock:
                if key in known:
                    known.move_to_end(key)
                    return known[key][0]
            answer = function(*args, **kwargs)
            with lock:
                if key not in known:
                    asked = sum(len(one) for one in (*args, *kwargs.values()) if isinstance(one, bytes))
                    known[key] = (answer, asked)
                    held += asked
                while len(known) > count or (held > size and len(known) > 1):
                    held -= known.popitem(last=False)[1][1]
            return answer

        return ask

    return wrap
