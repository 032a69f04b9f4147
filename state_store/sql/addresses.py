"""The places of stores whose rows are not in their state folder.

The settings make them known, so that each caller opens the right store of a folder.
"""

from __future__ import annotations

import os
from typing import NamedTuple

DEFAULT_SCHEMA = "tidegate"


class Address:
    """The url of a PostgreSQL database as libpq reads it, and the schema of the project in it. No
    dataclass, because programs that start quickly ask for addresses."""

    __slots__ = ("schema", "url")

    def __init__(self, url: str, schema: str = DEFAULT_SCHEMA) -> None:
        self.url, self.schema = url, schema

    @property
    def name(self) -> str:
        """The database for people, without its password."""
        rest = self.url.partition("://")[2].partition("?")[0].rpartition("@")[2]
        return f"the database {rest or 'of the PG variables'}, schema {self.schema},"


class ServerFacts(NamedTuple):
    """The facts that a user wants to know about a server. `offset_s` is the server's clock minus
    this machine's."""

    name: str
    version: str
    may_write: bool
    round_trip_ms: float
    offset_s: float


class HaltRow(NamedTuple):
    """A halt of all machines that share the rows. `key` is in the copy in a state folder, `by` is
    user@host, and `since` is in seconds of the server's clock."""

    key: str
    reason: str
    by: str
    since: float


class HaltsAsFiles:
    """The halt of a store that no other machine shares."""

    def halt_row(self) -> HaltRow | None:
        """None: a store of one machine has no such halt."""
        return None

    def put_halt(self, reason: str, by: str) -> HaltRow | None:
        """Set the halt of all machines; None if no other machine shares the rows."""
        del reason, by
        return None

    def drop_halt(self) -> bool:
        """End the halt of all machines; False if there was none."""
        return False


_known: dict[str, Address] = {}  # by the real path of the state folder


def keep_rows(state_dir: str | os.PathLike[str], address: Address | None) -> None:
    """The rows of this folder's store are at an address; None if they are in the folder."""
    folder = os.path.realpath(state_dir)
    _known.pop(folder, None)
    if address is not None:
        _known[folder] = address


def address_of(state_dir: str | os.PathLike[str]) -> Address | None:
    """The address of the rows of this folder's store; None if they are in the folder."""
    return _known.get(os.path.realpath(state_dir)) if _known else None
