"""The ends of a copy in a schema of a server. No program can use the schema until it is whole."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from state_store.database.errors import StoreBusyError
from state_store.documents.clock import Instant
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.failpoints import failpoint
from state_store.documents.locks import QUEUE_PATIENCE_S
from state_store.postgres import halts
from state_store.postgres.archives import TableArchives
from state_store.postgres.driver import connect, driver
from state_store.postgres.errors import translated, unreachable
from state_store.postgres.schema import (
    ARCHIVES_SINCE,
    COPYING,
    lock_key,
    prepare,
    stay_in,
    version_of,
)
from state_store.postgres.speech import Speaker
from state_store.sql.addresses import Address
from state_store.sql.connection import Archives, Connection
from state_store.sql.tables import EVENTS, OTHERS, Table, count_of

_MOMENT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1"


class _ServerEnd:
    """The parts that both ends have in common."""

    archives: Archives | None = None
    state_dir: Path | None = None

    def __init__(self, address: Address) -> None:
        self.address, self.name = address, address.name.removesuffix(",")
        self.translated = translated(address)
        try:
            me = f"copy {socket.gethostname()}:{os.getpid()}"
            self._raw = connect(address, me, QUEUE_PATIENCE_S)
            self._raw.execute("SET idle_in_transaction_session_timeout TO 0")  # FROM waits for TO
        except driver().Error as error:
            raise unreachable(address, error) from error
        self._speaker = Speaker(self._raw)

    def reader(self) -> Connection:
        """The connection."""
        return self._speaker

    def faults(self) -> Sequence[str]:
        """Nothing: the server checks its pages when it reads them."""
        return ()

    def has(self, table: Table) -> bool:
        """True if the schema has this table."""
        query = "SELECT to_regclass($1)"
        place = f'"{self.address.schema}".{table.name}'
        return self._raw.execute(query, (place,)).fetchone()[0] is not None

    def now(self) -> Instant:
        """The server's time."""
        query = "SELECT extract(epoch FROM clock_timestamp())::float8"
        seconds = self._raw.execute(query).fetchone()[0]
        return Instant("server", seconds, seconds)

    def close(self) -> None:
        """Close the connection."""
        with suppress(driver().Error):
            self._raw.close()


class ServerSource(_ServerEnd):
    """The store of a schema, which is only read."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        try:
            with self.translated:
                version = version_of(self._raw, address)
                if not version:
                    raise InputError(f"{self.name} has no store")
                if version >= ARCHIVES_SINCE:
                    self.archives = TableArchives(self.reader)
                self._raw.execute(_MOMENT)
        except BaseException:
            self.close()
            raise

    def renewed(self) -> None:
        """See what was written until now."""
        self._raw.execute(f"COMMIT; {_MOMENT}")

    def halt_reason(self) -> str | None:
        """The reason of the halt of all machines."""
        is_there = self.has(Table("halts", "number", ""))
        found = halts.row(self.reader(), self.address.schema) if is_there else None
        return found.reason if found else None


class ServerTarget(_ServerEnd):
    """A schema that is filled."""

    @property
    def is_begun(self) -> bool:
        """True if an earlier copy left its part."""
        return self.has(Table("copying", "number", ""))

    @property
    def has_rows(self) -> bool:
        """True if the schema has a store with rows."""
        return bool(version_of(self._raw, self.address)) and self._has_rows()

    def _has_rows(self) -> bool:
        return any(count_of(self.reader(), one) for one in (EVENTS, *OTHERS))

    def begin(self) -> None:
        """Make the tables, and close them to all programs."""
        key = lock_key(self.address.schema, "copying")
        with self.translated:
            if not self._raw.execute(f"SELECT pg_try_advisory_lock({key})").fetchone()[0]:
                raise StoreBusyError(f"another copy into {self.name} is at work; wait for its end")
            if self.is_begun:
                return
            prepare(self._raw, self.address)
            with self._raw.transaction():
                stay_in(self._raw, self.address)
                turn = lock_key(self.address.schema, "turn")
                self._raw.execute(f"SELECT pg_advisory_xact_lock({turn})")
                if self._has_rows():
                    raise CannotRunError(f"another program has just written to {self.name}")
                self._raw.execute(
                    f"CREATE TABLE copying(number BIGINT); INSERT INTO migrations VALUES({COPYING},"
                    "extract(epoch FROM now()))"
                )

    def start_over(self) -> None:
        """Empty all tables."""
        with self.translated, self._raw.transaction():
            stay_in(self._raw, self.address)
            self._raw.execute(f"TRUNCATE {', '.join(one.name for one in (EVENTS, *OTHERS))}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A block that is committed durably at its end."""
        with self.translated:
            with self._raw.transaction():
                stay_in(self._raw, self.address)
                yield
                failpoint("copy.before_commit")
            failpoint("copy.after_commit")

    def clear(self, table: Table) -> None:
        """Delete the rows of a table that an earlier copy left."""
        self._raw.execute(f"TRUNCATE {table.name}")

    def put(self, table: Table, rows: Iterable[Sequence[Any]]) -> None:
        """Add rows."""
        filled = f"COPY {table.name}({table.columns}) FROM STDIN"
        with self._raw.cursor() as cursor, cursor.copy(filled) as stream:
            for row in rows:
                stream.write_row(row)

    def count_on(self, tables: Sequence[Table], token: int) -> None:
        """Let all sequences go on after the rows that are there, tokens after `token`."""
        for table in tables:
            name = f"pg_get_serial_sequence('{table.name}', '{table.key}')"
            self._raw.execute(
                f"SELECT setval({name}, (SELECT COALESCE(MAX({table.key}), 0) + 1 "
                f"FROM {table.name}), false)"
            )
        self._raw.execute(
            f"SELECT setval('tokens', GREATEST({token + 1}, (SELECT last_value FROM tokens)), true)"
        )

    def put_halt(self, reason: str) -> None:
        """Halt the runs of all machines."""
        halts.put(self.reader(), self.address.schema, reason, "state copy")

    def finish(self) -> None:
        """Let all programs use the tables."""
        failpoint("copy.before_finish")
        with self.translated, self._raw.transaction():
            stay_in(self._raw, self.address)
            self._raw.execute(
                f"DROP TABLE copying; DELETE FROM migrations WHERE number = {COPYING}"
            )
        failpoint("copy.after_finish")
