"""The kinds of values about resources. Pure."""

from __future__ import annotations

import re
from typing import Any

from tools.settings.kinds import SWITCH, Kind

RESOURCE_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
RESOURCE_RULE = "each of 1 to 100 letters, digits, '.', '_' or '-'"


def is_resource(raw: Any) -> bool:
    """True for the name of a resource that tests share, such as `db`."""
    return isinstance(raw, str) and re.fullmatch(RESOURCE_PATTERN[1:-1], raw) is not None


def _exclusive(raw: Any) -> bool | tuple[str, ...]:
    if isinstance(raw, bool):
        return raw
    if not isinstance(raw, list | tuple) or not all(map(is_resource, raw)):
        raise ValueError
    return tuple(raw)


EXCLUSIVE = Kind(
    f"true, false or a list of names, {RESOURCE_RULE}",
    _exclusive,
    SWITCH.parse,
    shape={
        "anyOf": [
            {"type": "boolean"},
            {"type": "array", "items": {"type": "string", "pattern": RESOURCE_PATTERN}},
        ],
        "title": "true, false or list of names",
    },
)
