"""Links each event of a stream to the event before it, by a hash. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

START = b""  # the hash before the first row of a stream


def row_hash(previous: bytes, row: Sequence[Any]) -> bytes:
    """The link of a row: a hash of the previous link and of all columns except the id.

    `row` is (ts, actor, stream, type, payload, version). The lengths make it unambiguous.
    """
    ts, actor, stream, kind, payload, version = row
    sizes = f"{version} {ts!r} {len(stream)} {len(actor)} {len(kind)} "
    text = f"{sizes}{stream}{actor}{kind}{payload}"
    return hashlib.sha256(previous + text.encode("utf-8")).digest()
