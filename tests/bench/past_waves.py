"""Gives a state folder thousands of past waves: copies of the first one that it has."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
import uuid
from contextlib import closing
from hashlib import sha1
from pathlib import Path
from typing import Any

from state_store.database.events import AGENT_TRACES, ORCHESTRATOR_STATUS, WAVE_PREFIX
from state_store.database.store import EventStore
from state_store.documents.journal import FOLDER, load_entries, write_entry
from state_store.write_api import STATE_DB_FILENAME

LONG_AGO = time.time() - 1_000_000


def add_past_waves(state: Path, count: int) -> None:
    """Events, journal entries, publications and folders of `count` more waves, each of one item."""
    [entry, *_] = load_entries(state)[0].values()
    waves = [str(uuid.uuid4()) for _ in range(count)]
    with EventStore(state / STATE_DB_FILENAME) as store:
        _add_events(store, str(entry["waveId"]), waves)
        heads = store.heads()
    _add_publications(state / STATE_DB_FILENAME, entry["commit"], waves)
    for number, wave in enumerate(waves):
        version, link = heads[f"{WAVE_PREFIX}{wave}"]
        tip = _tip(wave)
        told = {"waveId": wave, "tip": tip, "commit": tip}
        anchor = f"{WAVE_PREFIX}{wave}@{version}:{link[:16]}"
        facts = {**entry, **told, "anchor": anchor, "timestamp": LONG_AGO + number}
        write_entry(state, f"past-{number}", entry["phase"], facts)
        shutil.copytree(state / "runs" / entry["waveId"], state / "runs" / wave)
    for path in (state / FOLDER).iterdir():
        os.utime(path, (LONG_AGO, LONG_AGO))


def _add_events(store: EventStore, first: str, waves: list[str]) -> None:
    streams = (f"{WAVE_PREFIX}{first}", ORCHESTRATOR_STATUS, AGENT_TRACES)
    known = {stream: store.read(stream) for stream in streams}
    with store.transaction() as transaction:
        for wave in waves:
            for stream, events in known.items():
                name = stream.replace(first, wave)
                for event in events:
                    payload = json.loads(json.dumps(event["payload"]).replace(first, wave))
                    transaction.append(name, event["type"], payload)


def _add_publications(database: Path, commit: str, waves: list[str]) -> None:
    columns = "tip, repo, wave, branch, target, state, items, open, changed"
    with closing(sqlite3.connect(database)) as connection, connection:
        row: tuple[Any, ...] = connection.execute(f"SELECT {columns} FROM publications").fetchone()
        for wave in waves:
            tip = _tip(wave)
            new = (tip, row[1], wave, *row[3:6], row[6].replace(commit, tip), *row[7:])
            connection.execute(
                f"INSERT INTO publications({columns}) VALUES(?,?,?,?,?,?,?,?,?)", new
            )


def _tip(wave: str) -> str:
    return sha1(wave.encode(), usedforsecurity=False).hexdigest()
