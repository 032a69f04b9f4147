"""A worker for the bench of PostgreSQL, run as a program: claims and releases in a loop.

`python postgres_claimers.py FOLDER URL SCHEMA SECONDS NAME`: says `ready`, starts when a line comes
in, and prints the number of its claims.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from state_store import coordination
from state_store.postgres.store import PostgresStore
from state_store.sql.addresses import Address


def main(folder: str, url: str, schema: str, seconds: str, name: str) -> None:
    with PostgresStore(Path(folder) / "tracker_events.db", Address(url, schema)) as store:
        store.append("ready", "t", name)
        print("ready", flush=True)
        sys.stdin.readline()
        end, claims = time.monotonic() + float(seconds), 0
        while time.monotonic() < end:
            lease = coordination.acquire(store, f"{name}-{claims}", name)
            assert lease is not None
            claims += 1
            coordination.give_back(store, lease)
        print(claims, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
