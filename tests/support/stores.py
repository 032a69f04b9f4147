"""Stores of both kinds, so that one test says what is true of each."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from state_store.database.store import EventStore
from state_store.documents.clock import Clock
from state_store.sql.addresses import Address, keep_rows
from tests.support.postgres import Server

KINDS = ("sqlite", "postgres")


@dataclass(frozen=True)
class Stores:
    """Opens stores of one kind; a path is always the same store. `server` is None for SQLite."""

    server: Server | None = None
    salt: str = field(default_factory=secrets.token_hex)

    @property
    def kind(self) -> str:
        return KINDS[self.server is not None]

    def open(
        self, path: Path, *, clock: Clock | None = None, folds: Mapping[str, Any] | None = None
    ) -> EventStore:
        more: dict[str, Any] = {} if folds is None else {"folds": folds}
        if self.server is None:
            return EventStore(path, clock=clock, **more)
        from state_store.postgres.store import PostgresStore  # noqa: PLC0415 - only with its driver

        return PostgresStore(path, self.address(path), clock=clock, **more)

    def address(self, path: Path) -> Address:
        assert self.server
        name = hashlib.sha256(f"{self.salt}{path}".encode()).hexdigest()[:20]
        return Address(self.server.url, f"t_{name}")

    def settle(self, state_dir: Path) -> None:
        """Say where the rows of a state folder are, as the settings do."""
        if self.server is not None:
            keep_rows(state_dir, self.address(state_dir / "tracker_events.db"))
