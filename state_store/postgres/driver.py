"""Connects to the server of an address, with a driver that is imported only then."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from state_store.documents.errors import CannotRunError
from state_store.sql.addresses import Address

_OLDEST = 13
_CONNECT_TIMEOUT_S = 10
_SUSPENDED_S = 30  # after which the server ends the transaction of a process that was stopped


def driver() -> Any:
    """The module `psycopg`. Raises CannotRunError if it is not installed."""
    try:
        return import_module("psycopg")
    except ImportError as error:
        raise CannotRunError(
            "[state] url names a PostgreSQL server, and its driver is missing "
            f"({str(error).splitlines()[0]}); run: pip install 'tidegate[postgres]'"
        ) from error


def connect(address: Address, caller: str, patience_s: float) -> Any:
    """A connection of psycopg whose statements commit by themselves, and wait for locks as long as
    they may. Raises its errors."""
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
            f'SET search_path TO "{address.schema}"; SET standard_conforming_strings TO on; '
            "SET extra_float_digits TO 1; SET default_transaction_isolation TO 'read committed'; "
            f"SET lock_timeout TO {int(patience_s * 1000)}; "
            f"SET idle_in_transaction_session_timeout TO '{_SUSPENDED_S}s'; "
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
    except BaseException:
        connection.close()
        raise
    return connection
