"""The publications that a state folder knows: the rows of its store, and what only its journal has.

The row is the authority. The journal is read where the store cannot have a row: after the database
was lost, and in a state folder of an earlier version.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from state_store.database.interface import Store, StoreTransaction
from state_store.database.publications import (
    ANNOUNCED,
    ON_BRANCH,
    OPEN,
    SHIPPED,
    Publication,
    PublicationBook,
    PublishedCommit,
)
from state_store.database.schema import PUBLICATIONS_SINCE
from state_store.documents import journal
from state_store.documents.errors import TidegateError
from state_store.documents.files import identity_at
from state_store.documents.journal_facts import JournalFacts, journal_facts
from state_store.place import has_begun, reading
from state_store.write_api import STATE_DB_FILENAME

# What a cycle asks several times is kept: the tips of a database, by what says that they are the
# same, and what the journal of a state folder has beside them.
_tips: dict[Path, tuple[object, frozenset[str]]] = {}
_beside: dict[Path, tuple[JournalFacts, frozenset[str], tuple[Publication, ...]]] = {}


def known_publications(
    state_dir: Path, *, only_open: bool = False, commits: Collection[str] | None = None
) -> tuple[Publication, ...]:
    """All publications, or those with open items or with one of `commits`, the oldest first.
    Changes nothing and makes no database. Raises CannotRunError for a journal that cannot be
    listed."""
    database, is_lost = state_dir / STATE_DB_FILENAME, True
    rows: tuple[Publication, ...] = ()
    tips: frozenset[str] = frozenset()
    with suppress(TidegateError):  # what is to be written later says that the store is damaged
        if has_begun(database):
            with reading(database) as (connection, version):
                if version >= PUBLICATIONS_SINCE:
                    book = PublicationBook(connection)
                    rows = book.all(only_open=only_open, commits=commits)
                    tips = _tips_of(database, book)
            is_lost = False
    found = journal_facts(state_dir, only_replaced=not is_lost)
    if is_lost:
        lacking = _lacking(found, tips, is_lost=True)
    else:
        known = _beside.get(state_dir)
        if known is None or known[0] is not found or known[1] is not tips:
            known = _beside[state_dir] = found, tips, _lacking(found, tips, is_lost=False)
        lacking = known[2]
    asked = (one for one in lacking if one.open_slugs or not only_open)
    return (*rows, *(one for one in asked if commits is None or one.has_one_of(commits)))


def _tips_of(database: Path, book: PublicationBook) -> frozenset[str]:
    """The tips of all rows, read again if there may be others."""
    same = book.extent(), identity_at(database)[:2]
    known = _tips.get(database)
    if known is None or known[0] != same:
        known = _tips[database] = same, book.tips()
    return known[1]


def publications_in_journal(state_dir: Path) -> tuple[Publication, ...]:
    """All that the journal announces, whether or not a row was committed: for programs that also
    serve a damaged store and change no file of it, and look themselves where the commits are."""
    return _lacking(journal_facts(state_dir), frozenset(), is_lost=True)


def import_publications(store: Store, state_dir: Path, *, is_lost: bool = False) -> None:
    """Give the store the rows that only the journal has; `is_lost` if the store is a new one that
    takes the place of a lost one. Raises CannotRunError."""
    found = journal_facts(state_dir, only_replaced=not is_lost)
    tips = store.publication_tips()
    if _lacking(found, tips, is_lost=is_lost):

        def job(transaction: StoreTransaction) -> int:
            book, now = transaction.publications, transaction.now.wall_s
            lacking = _lacking(found, book.tips(), is_lost=is_lost)  # another run may have done it
            for one in lacking:
                book.announce(one, now)
            return len(lacking)

        store.joined(job)
    for path, entries in found.lists.items():
        latest = list(found.latest.values())
        if not any(entry in latest for entry in entries):
            with suppress(OSError):
                path.unlink()


def _lacking(
    journal_now: JournalFacts, known: Collection[str], *, is_lost: bool
) -> tuple[Publication, ...]:
    """The publications of the journal that have no row, by the `known` tips of rows. An item's
    entry of its own that announces one counts only with `is_lost`: else its row was not committed,
    and nothing was published."""
    listed = [one for entries in journal_now.lists.values() for one in entries]
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in journal_now.latest.values():
        if not isinstance(tip := entry.get("tip"), str) or tip in known:
            continue  # of thousands of past waves most
        texts = [tip, *(entry.get(key) for key in ("commit", "branch", "waveId"))]
        if not all(isinstance(text, str) and text for text in texts):
            continue
        is_announced = entry["phase"] == journal.SHIPPING
        if entry.get("shipped") is True or (is_announced and (is_lost or entry in listed)):
            found.setdefault((entry["tip"], entry.get("repo") or ""), []).append(entry)
    return tuple(_of_entries(tip, repo, several) for (tip, repo), several in found.items())


def _of_entries(tip: str, repo: str, entries: list[Mapping[str, Any]]) -> Publication:
    items = tuple(
        PublishedCommit(
            entry["slug"], entry["commit"], SHIPPED if entry.get("shipped") is True else OPEN
        )
        for entry in entries
    )
    targets = (entry.get("target") for entry in entries)
    return Publication(
        tip=tip,
        repo=repo,
        wave=entries[0]["waveId"],
        branch=entries[0]["branch"],
        target=next((target for target in targets if isinstance(target, str)), None),
        items=items,
        state=ANNOUNCED if any(one.state == OPEN for one in items) else ON_BRANCH,
    )
