"""`PostgresStore`: an `EventStore` whose tables are in a schema of a PostgreSQL server.

The state folder has its own name in it, because each folder has its own tracker file.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from state_store.database.kept_items import Fold
from state_store.database.schema import ARCHIVES_SINCE, VERSION
from state_store.database.store import FOLDS, EventStore
from state_store.database.transaction import Draft, Transaction
from state_store.documents.clock import Clock, Instant
from state_store.documents.files import read_text, write_text_atomic
from state_store.documents.locks import QUEUE_PATIENCE_S
from state_store.postgres import halts
from state_store.postgres.connections import Servers
from state_store.sql.addresses import Address, HaltRow, ServerFacts
from state_store.sql.connection import Connection
from state_store.sql.unshipped import UnshippedBook

T = TypeVar("T")
FOLDER_NAME = "folder.id"


def name_of_folder(state_dir: Path, *, make: bool = True) -> str:
    """The name of a state folder among all that share tables, as a prefix; "" if it has none and
    none is made."""
    file = state_dir / FOLDER_NAME
    if not file.exists():
        if not make:
            return ""
        state_dir.mkdir(parents=True, exist_ok=True)
        write_text_atomic(file, f"{secrets.token_hex(8)}\n")
    return f"{read_text(file).strip()}/"


class PostgresStore(EventStore):
    """Opens the tables at `address`, and creates them if they are missing. `path` is the place of a
    database in the state folder; no file is there."""

    def __init__(
        self,
        path: str | Path,
        address: Address,
        *,
        folds: Mapping[str, Fold] = FOLDS,
        clock: Clock | None = None,
        patience_s: float = QUEUE_PATIENCE_S,
    ) -> None:
        self.path, self._folds = Path(path), folds
        self._servers = Servers(address, patience_s)
        self._given_clock = clock
        self._use(self._servers, clock or ServerClock(self._servers))

    @property
    def folder(self) -> str:
        """The name of the state folder among all that share the tables; made at the first use."""
        return name_of_folder(self.path.parent)

    def halt_row(self) -> HaltRow | None:
        """The halt of all machines, if it is set."""
        with self._database.translated:
            return halts.row(self._database.reader(), self._servers.address.schema)

    def put_halt(self, reason: str, by: str) -> HaltRow | None:
        """Set the halt of all machines. It waits for no writer's turn."""
        with self._database.translated:
            return halts.put(self._database.reader(), self._servers.address.schema, reason, by)

    def drop_halt(self) -> bool:
        """End the halt of all machines; False if there was none."""
        with self._database.translated:
            return halts.drop(self._database.reader(), self._servers.address.schema)

    def read_unshipped(self, look: Callable[[UnshippedBook], T]) -> T | None:
        """Return `look(rows)`, the rows of all machines."""
        with self._database.translated:
            return look(UnshippedBook(self._database.reader()))

    def _appended(self, stream: str, drafts: list[Draft], actor: str, wanted: int | None) -> int:
        """Append one event in one message, unless it changes an item or other threads wait."""

        def job(transaction: Transaction) -> int:
            return transaction.append_drafts(stream, drafts, actor, wanted)

        def alone() -> int | None:
            if len(drafts) != 1 or stream in self._folds:
                return None
            at = repr(self._given_clock.now().wall_s) if self._given_clock else None
            return self._servers.append(stream, *drafts[0][:2], actor, wanted, at)

        return self._servers.repeated(lambda: self._commits.submit(job, alone))


class ServerClock:
    """The server's clock, which is the same for all machines."""

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    def now(self) -> Instant:
        """The present moment; within a transaction the one of its begin."""
        return self._servers.now()


_prepared: set[tuple[str, str]] = set()


def is_there(address: Address) -> bool:
    """True if the schema has our tables. Makes none."""
    place = (address.url, address.schema)
    if place not in _prepared:
        servers = Servers(address, QUEUE_PATIENCE_S, may_write=False)
        servers.close()
        _prepared.update({place} if servers.is_prepared else ())
    return place in _prepared


@contextmanager
def read_only(address: Address) -> Iterator[tuple[Connection, int]]:
    """A connection for reading, and the version of the tables, 0 without any."""
    servers = Servers(address, QUEUE_PATIENCE_S, may_write=False)
    try:
        with servers.translated:
            yield servers.reader(), _version(servers)
    finally:
        servers.close()


def _version(servers: Servers) -> int:
    """The version of SQLite's tables that has the same ones; 0 without any."""
    if not servers.is_prepared:
        return 0
    return VERSION if servers.archives is not None else ARCHIVES_SINCE - 1


def halt_row(address: Address) -> HaltRow | None:
    """The halt of all machines; None without tables too."""
    with read_only(address) as (reader, version):
        return halts.row(reader, address.schema) if version else None


# The rights on every table and sequence that is there; the right to make them, if none is.
_MAY_WRITE = (
    "SELECT COALESCE(bool_and(CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'USAGE') "
    "ELSE has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT') "
    "AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE') END), TRUE) "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = ? AND c.relkind IN ('r', 'S')"
)
_MAY_MAKE = (
    "SELECT COALESCE((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace "
    "WHERE nspname = ?), has_database_privilege(current_database(), 'CREATE'))"
)


def facts(address: Address) -> ServerFacts:
    """The facts about the server. Makes nothing."""
    servers = Servers(address, QUEUE_PATIENCE_S, may_write=False)
    try:
        with servers.translated:
            reader = servers.reader()
            query = _MAY_WRITE if servers.is_prepared else _MAY_MAKE
            may_write = bool(reader.execute(query, (address.schema,)).fetchone()[0])
            version = str(reader.execute("SHOW server_version").fetchone()[0]).partition(" ")[0]
            began = time.monotonic()
            away = servers.now().wall_s - time.time()
            trip = time.monotonic() - began
    finally:
        servers.close()
    name = address.name.removesuffix(",")
    return ServerFacts(name, version, may_write, trip * 1000, away + trip / 2)
