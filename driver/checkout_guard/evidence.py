"""Evidence that an item's agent or test made a change in the user's own checkout.

The user may work there at any time, so a change while an item was at work shows nothing by itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from driver.checkout_guard.fingerprint import AROUND, FILE
from driver.checkout_guard.guard import CheckoutChange
from driver.domain.results import MODE_NESTED, Change
from driver.filesystem.safe_file_access import regular_bytes

_MAX_BYTES = 1 << 24


def shown(
    changes: Sequence[CheckoutChange],
    top: Path,
    work: Sequence[Change],
    contents: Callable[[Change], bytes],
    private: Path,
) -> dict[str, str]:
    """The changes of the checkout at `top` that the item made, by name, each with the evidence: the
    file is as in the item's work, a new file of the work names the checkout, or the change is in
    the `private` folder of the wave while no other item was at work."""
    inside = f"{AROUND}{private}/"
    ours = (one for one in changes if one.name.startswith(inside) and len(one.suspects) == 1)
    found = {change.name: "nobody else writes there" for change in ours}
    plain = [change for change in changes if not change.holds_back]
    if not plain:
        return found
    by_path = {one.path: one for one in work if one.mode != MODE_NESTED}
    if names := next((p for p, one in by_path.items() if os.fsencode(top) in contents(one)), ""):
        found |= {change.name: f"{names} of its work names your checkout" for change in plain}
    for change in plain:
        own = by_path.get(change.name.removeprefix(FILE)) if change.name.startswith(FILE) else None
        if own is not None and _content(top / own.path) == (contents(own) if own.mode else None):
            found[change.name] = "as in its work"
    return found


def _content(path: Path) -> bytes | None:
    """The content of a regular file or link; None for a missing one."""
    try:
        seen = path.lstat()
        if stat.S_ISLNK(seen.st_mode):
            return os.fsencode(path.readlink())
        small = stat.S_ISREG(seen.st_mode) and seen.st_size <= _MAX_BYTES
        return regular_bytes(path) if small else b""
    except OSError:
        return None
