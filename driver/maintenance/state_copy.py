"""`tidegate state copy`: moves a store between a state folder and a PostgreSQL server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from driver.run_state.run_registry import waves_alive
from state_store.documents.errors import ExitCode, InputError, StoppedByPolicyError
from state_store.moving.copying import copy
from state_store.moving.ends import Source, Target
from state_store.moving.sqlite_ends import FileSource, FileTarget
from state_store.postgres.ends import ServerSource, ServerTarget
from state_store.postgres.store import name_of_folder
from state_store.sql.addresses import DEFAULT_SCHEMA, Address
from state_store.write_api import STATE_DB_FILENAME
from tools.program import show
from tools.settings import load as settings

if TYPE_CHECKING:
    import argparse

_URLS = ("postgresql://", "postgres://")
_ENDINGS = (".db", ".sqlite", ".sqlite3")
_OF_THE_SETTINGS = "url"


def copied(asked: argparse.Namespace) -> int:
    """Copy the whole store, and check the copy."""
    here = _place(asked.source, asked.from_schema)
    there = _place(asked.target, asked.to_schema)
    if _identity(here) == _identity(there):
        raise InputError("FROM and TO are the same store")
    for place in (here, there):
        _require_no_run(place)
    source: Source = FileSource(here) if isinstance(here, Path) else ServerSource(here)
    try:
        target: Target = FileTarget(there) if isinstance(there, Path) else ServerTarget(there)
        try:
            strip = add = ""
            if isinstance(here, Path) and isinstance(there, Address):
                add = name_of_folder(here.parent)
            elif isinstance(there, Path) and isinstance(here, Address):
                strip = name_of_folder(there.parent, make=False)
            done = copy(source, target, strip=strip, add=add)
            names = {"from": source.name, "to": target.name}
        finally:
            target.close()
    finally:
        source.close()
    answer: dict[str, Any] = {
        **names,
        "rows": done.rows,
        "resumed": done.resumed,
        "already": done.already,
    }
    show(answer, _lines(answer, here, there), as_json=asked.json)
    return ExitCode.DONE


def _lines(answer: dict[str, Any], here: Path | Address, there: Path | Address) -> list[str]:
    rows = answer["rows"]
    what = f"{rows['events']} events, {rows['items'] + rows['item_blocks']} rows of items"
    done = "was copied before" if answer["already"] else "is copied"
    lines = [f"{answer['from']} {done} to {answer['to']}, and both are sound: {what}"]
    if isinstance(there, Address):
        return [*lines, "next: set [state] url and schema on each machine"]
    return [*lines, "next: remove [state] url"] if isinstance(here, Address) else lines


def _place(named: str, schema: str | None) -> Path | Address:
    """The file of a database, or an address. Raises InputError."""
    if named == _OF_THE_SETTINGS or named.startswith(_URLS):
        known = settings.address_of_settings()
        url = known.url if named == _OF_THE_SETTINGS and known else named
        if url == _OF_THE_SETTINGS:
            raise InputError("url means [state] url or TIDEGATE_STATE_URL, and neither is set")
        if named.startswith(_URLS):
            _refuse_password(named)
        return Address(url, schema or (known.schema if known else DEFAULT_SCHEMA))
    scheme, is_address, _ = named.partition("://")
    if is_address and not os.path.lexists(named):
        raise InputError(
            f"an address of a PostgreSQL database begins with postgresql://, not with {scheme}://"
        )
    if schema is not None:
        raise InputError(f"{named} is no server, so it has no schema")
    path = Path(named)
    return path if path.is_file() or path.suffix in _ENDINGS else path / STATE_DB_FILENAME


def _identity(place: Path | Address) -> tuple[str, ...]:
    """A value that two places share if they are the same store."""
    if isinstance(place, Path):
        return (os.path.realpath(place),)
    return place.url, place.schema


def _refuse_password(url: str) -> None:
    """Every user of the machine can read the words of a command."""
    try:
        parts = urlsplit(url)
        has_one = bool(parts.password) or "password" in parse_qs(parts.query)
    except ValueError as error:
        raise InputError("the url is no address of a PostgreSQL database; correct it") from error
    if has_one:
        raise InputError(
            "other users can read a password in a command; put it into PGPASSWORD or .pgpass, or "
            "the url into TIDEGATE_STATE_URL, and write url for it"
        )


def _require_no_run(place: Path | Address) -> None:
    """Raise StoppedByPolicyError while a run of the state folder is under way."""
    waves = sorted(waves_alive(place.parent)) if isinstance(place, Path) else []
    if waves:
        raise StoppedByPolicyError(f"wave {waves[0]} is running; copy after its end")
