"""`Address`: the server, the database and the schema of a project, with the driver that speaks to
it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass

SCHEMES = ("postgresql://", "postgres://")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_OLDEST = 13
_CONNECT_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Address:
    """The url of a database as libpq reads it, and the schema of the project in it."""

    url: str
    schema: str = "tidegate"

    @property
    def name(self) -> str:
        """The database for people, without its password."""
        rest = self.url.partition("://")[2].partition("?")[0].rpartition("@")[2]
        return f"the database {rest or 'of the PG variables'}, schema {self.schema},"


def is_schema(text: str) -> bool:
    """True if the text can be a schema's name without quotes."""
    return bool(_SCHEMA.fullmatch(text)) and not text.startswith("pg_")


def driver() -> Any:
    """The module `psycopg`. Raises CannotRunError if it is not installed."""
    try:
        return import_module("psycopg")
    except ImportError as error:
        raise CannotRunError(
            "[state] url names a PostgreSQL server, and its driver is missing "
            f"({str(error).splitlines()[0]}); run: pip install 'tidegate[postgres]'"
        ) from error


def connect(address: Address, caller: str) -> Any:
    """A connection of psycopg whose statements commit by themselves. Raises its errors."""
    psycopg = driver()
    text = psycopg.conninfo.make_conninfo(address.url)
    given = psycopg.conninfo.conninfo_to_dict(text)
    defaults = {"connect_timeout": _CONNECT_TIMEOUT_S, "application_name": f"tidegate {caller}"}
    connection = psycopg.connect(
        text,
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
        client_encoding="utf8",
        **{key: value for key, value in defaults.items() if key not in given},
    )
    try:
        version = connection.info.server_version // 10_000
        if version < _OLDEST:
            raise CannotRunError(
                f"{address.name} is on PostgreSQL {version}; use version {_OLDEST} or a newer one"
            )
        numbers = import_module("psycopg.types.numeric")
        connection.adapters.register_loader("numeric", numbers.IntLoader)  # of sums
        connection.execute(
            f"SET search_path TO {address.schema}; SET standard_conforming_strings TO on; "
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
    except BaseException:
        connection.close()
        raise
    return connection
