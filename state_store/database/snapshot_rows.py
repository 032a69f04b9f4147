"""Snapshots: the newest projection of a stream each, as JSON with a checksum."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import sys
from typing import Any

from state_store.database.event_rows import decode
from state_store.database.kept_items import fetch


def snapshot_text(projection: Any) -> tuple[str, str]:
    """A projection as JSON, and its checksum. Raises ValueError or TypeError if it is not JSON."""
    text = json.dumps(projection, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text, _checksum(text)


def put_snapshot(
    connection: sqlite3.Connection, ts: float, stream: str, version: int, text: str, checksum: str
) -> None:
    """Store a projection of `snapshot_text`, and delete older snapshots of its stream."""
    connection.execute("DELETE FROM snapshots WHERE stream = ?", (stream,))
    connection.execute(
        "INSERT INTO snapshots(ts, stream, event_version, projection, checksum) VALUES(?,?,?,?,?)",
        (ts, stream, version, text, checksum),
    )


def read_snapshot(connection: sqlite3.Connection, stream: str) -> tuple[int, Any, str] | None:
    """(version, projection, checksum); None if missing, or damaged (with a warning)."""
    query = (
        "SELECT event_version, projection, checksum FROM snapshots WHERE stream = ? "
        "ORDER BY id DESC LIMIT 1"
    )
    for version, text, checksum in fetch(connection, query, (stream,)):
        try:
            if _checksum(text) == checksum:
                return version, decode(text), checksum
        except (ValueError, RecursionError):
            pass
        sys.stderr.write(f"WARNING: the snapshot of stream {stream} is damaged and is not used\n")
    return None


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
