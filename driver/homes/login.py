"""The login of an agent's program: files in its private home that it may renew.

The program gets copies, so nothing that it writes there reaches the user's settings. A login that
it renewed itself is given back, or the user would be logged out: its server forgets the old one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.plain_copies import Below, copy_plain
from driver.filesystem.safe_file_access import read_plain, replace_plain
from state_store.documents.errors import TidegateError
from state_store.documents.files import read_bytes, write_bytes_atomic
from state_store.documents.strict_json import parse_foreign
from state_store.values.lazy_dataclass import dataclass

_MAX_BYTES = 1 << 20
_SHORTEST_TOKEN = 16  # a date is longer; names of accounts, hosts and kinds are mostly shorter


@dataclass(frozen=True, slots=True)
class LoginFile:
    """A file or folder `source` of the user, and its `name` in a home. Of a JSON object only the
    keys `keep` are copied, if there are some. `is_renewed` files are given back."""

    name: str
    source: Path
    keep: tuple[str, ...] = ()
    is_renewed: bool = False


Lent = Mapping[LoginFile, bytes]


def lend(login: Iterable[LoginFile], home: Path) -> Lent:
    """Copy the login into a home; returns the contents of the files that may be renewed."""
    lent = dict[LoginFile, bytes]()
    for one in login:
        with suppress(OSError, TidegateError, ValueError):  # then the program tells what it lacks
            if one.source.is_dir():
                real = one.source.resolve()  # the user may have a link there
                copy_plain(Below(real.parent, real.name), Below(home, one.name))
                continue
            content = read_bytes(one.source, _MAX_BYTES)
            if one.keep:
                known = parse_foreign(content)
                content = json.dumps({key: known[key] for key in one.keep if key in known}).encode()
            home.mkdir(parents=True, exist_ok=True)
            replace_plain(home, one.name, content, mode=0o600)
            if one.is_renewed:
                lent[one] = content
    return lent


def give_back(lent: Lent, home: Path) -> tuple[Path, ...]:
    """Write the logins that a program renewed to their places; returns these. A login that has
    changed there meanwhile stays, and what has another shape than before is no login."""
    given = list[Path]()
    for one, before in lent.items():
        with suppress(OSError, TidegateError, NotPlainError, ValueError):
            after = read_plain(home, one.name, _MAX_BYTES)
            if after is None or after == before or not _same_shape(before, after):
                continue
            if read_bytes(one.source, _MAX_BYTES) == before:
                write_bytes_atomic(one.source, after)
                given.append(one.source)
    return tuple(given)


def _same_shape(before: bytes, after: bytes) -> bool:
    """True if a renewal could have made one of the other."""
    old, new = _shape(parse_foreign(before)), _shape(parse_foreign(after))
    return bool(old == new)


def _shape(value: Any) -> Any:
    """The parts that a renewal leaves as they are: keys, kinds, ids, the beginnings of tokens."""
    if isinstance(value, dict):
        return {key: _shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        is_token = len(value) >= _SHORTEST_TOKEN and "://" not in value
        return re.sub(r"\d", "0", value[:8]) if is_token else value
    return type(value)
