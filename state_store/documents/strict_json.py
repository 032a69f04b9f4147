"""The only parsers of JSON, and of TOML. Pure.

JSON that people or Tidegate write is strict: no duplicate keys, no NaN, no infinity. That of other
programs may have them. Whatever is wrong is a ValueError, also a text that is nested too deeply and
a number with too many digits. Who reads the text limits its size, and refuses bad UTF-8.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any


def parse(text: str, decoder: json.JSONDecoder | None = None) -> Any:
    """Parse `text`. Raises ValueError with the location of the fault."""
    try:
        return (decoder or DECODER).decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_foreign(text: str | bytes) -> Any:
    """The value of JSON that another program wrote. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document. TOML has NaN and infinity, so each reader of a number refuses
    them. Raises ValueError."""
    import tomllib  # noqa: PLC0415 - few programs read a config

    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def decoder(object_of: Callable[[list[tuple[str, Any]]], Any]) -> json.JSONDecoder:
    """A strict decoder that calls `object_of(members)` for each object, the innermost first.

    `object_of` must refuse duplicate keys, with `unique`.
    """
    return json.JSONDecoder(
        object_pairs_hook=object_of, parse_constant=_no_constant, parse_float=_finite
    )


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members as a dict. Raises ValueError for a duplicate key."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice, _ = (Counter(key for key, _ in pairs) - Counter(list(found))).popitem()
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:40]} is too large")
    return number


DECODER = decoder(unique)
