"""Which files of a checkout Tidegate itself writes while a wave runs: they blame no agent."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from driver.checkout_guard.fingerprint import FILE

_STREAMS = (1, 2)  # often sent into a file of the checkout: `... 2> wave.log`


def is_own(path: Path, places: Iterable[Path]) -> bool:
    """Whether `path` is one of `places`, lies in one, or is where our output goes."""
    real = Path(os.path.realpath(path))
    if any(real.is_relative_to(os.path.realpath(place)) for place in places):
        return True
    with contextlib.suppress(OSError):
        there = path.stat()
        return any(os.path.samestat(there, stream) for stream in _open_streams())
    return False


def is_own_part(top: Path, name: str, places: Iterable[Path]) -> bool:
    """The same for a part of the checkout at `top`, named as `checkout_watch` names it."""
    return name.startswith(FILE) and is_own(top / name.removeprefix(FILE), places)


def _open_streams() -> Iterable[os.stat_result]:
    for number in _STREAMS:
        with contextlib.suppress(OSError):
            yield os.fstat(number)
