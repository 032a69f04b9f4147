"""What was really spent, from the store and the ledger together. Reads only, and makes no file.

The store has every use of ours at once; the ledger has those of other programs too, and of a store
that was lost. A use that both know counts once, by its stamp.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from state_store.kept_spend import SpendBook, Use
from state_store.store import EventStore
from state_store.write_api import STATE_DB_FILENAME
from tools.ledger_rows import all_rows


def tokens(state_dir: Path, since: datetime | None, wave: str | None) -> int:
    """Tokens of all that was settled from `since` on, and of `wave` where one is named.

    Raises InputError for a ledger that cannot be read, and what the store raises.
    """
    rows = all_rows(state_dir, since)  # before the store, where ours are first
    uses = {use.stamp: use for use in _uses(state_dir, since, wave)}
    ledgered = sum(
        row.tokens for row in rows if row.stamp not in uses and (wave is None or row.wave == wave)
    )
    return ledgered + sum(use.charge.tokens for use in uses.values())


def _uses(state_dir: Path, since: datetime | None, wave: str | None) -> list[Use]:
    database = state_dir / STATE_DB_FILENAME
    if not database.exists():
        return []
    stamp = "" if since is None else f"{since.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

    def look(book: SpendBook) -> list[Use]:
        found = book.uses_since(stamp) if wave is None else book.uses_of_wave(wave)
        return [use for use in found if use.stamp >= stamp]

    with EventStore(database) as store:
        return store.read_spend(look, list[Use]())
