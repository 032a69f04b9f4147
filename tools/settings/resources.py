"""The kinds of values about resources and databases. Pure."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from state_store.values.names import RESOURCE_PATTERN, RESOURCE_RULE, is_resource
from tools.settings.kinds import SWITCH, Kind, whole_number


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


def _size(raw: Any) -> int:
    if isinstance(raw, str):
        found = re.fullmatch(SIZE_PATTERN[1:-1], raw.strip())
        if found is None:
            raise ValueError
        return int(float(found[1]) * _UNITS[found[2] or ""])
    return int(whole_number(0).accept(raw))


_UNITS = {"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
SIZE_PATTERN = r"^([0-9]{1,12}(?:\.[0-9]{1,3})?) ?(B|KiB|MiB|GiB|TiB)?$"
SIZE = Kind(
    'a size such as "2 GiB" or a number of bytes',
    _size,
    str,
    shape={
        "anyOf": [
            {"type": "integer", "minimum": 0},
            {"type": "string", "pattern": SIZE_PATTERN},
        ],
        "title": "size",
    },
)

_POSTGRES = "postgres(ql)?://"
_SCHEMA = r"(?!pg_)[a-z_][a-z0-9_]{0,62}"


def _text_like(pattern: str, raw: Any) -> str:
    if not isinstance(raw, str) or not raw.isprintable() or re.match(pattern, raw) is None:
        raise ValueError
    return raw


DATABASE = Kind(
    "a postgresql:// address",
    partial(_text_like, _POSTGRES),
    str,
    private=True,
    shape={"type": "string", "pattern": f"^{_POSTGRES}", "title": "postgresql:// address"},
)
SCHEMA = Kind(
    "a name of small letters, digits and _ that does not begin with pg_",
    partial(_text_like, rf"{_SCHEMA}\Z"),
    str,
    shape={"type": "string", "pattern": f"^{_SCHEMA}$", "title": "name of a schema"},
)
