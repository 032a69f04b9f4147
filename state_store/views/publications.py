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
from state_store.documents.journal_facts import journal_facts
from state_store.place import has_begun, reading
from state_store.values.lazy_dataclass import dataclass
from state_store.write_api import STATE_DB_FILENAME


@dataclass(frozen=True, slots=True)
class _Journal:
    """The facts of the latest entries of a journal, and of the lists by file that an earlier
    version wrote."""

    latest: tuple[Mapping[str, Any], ...]
    lists: Mapping[Path, list[dict[str, Any]]]

    @classmethod
    def read(cls, state_dir: Path, *, only_replaced: bool = False) -> _Journal:
        """Raises CannotRunError for a journal that cannot be listed."""
        found = journal_facts(state_dir, only_replaced=only_replaced)
        return cls(tuple(found.latest.values()), found.lists)


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
                    rows, tips = book.all(only_open=only_open, commits=commits), book.tips()
            is_lost = False
    journal_now = _Journal.read(state_dir, only_replaced=not is_lost)
    lacking = _lacking(journal_now, tips, is_lost=is_lost)
    asked = (one for one in lacking if one.open_slugs or not only_open)
    return (*rows, *(one for one in asked if commits is None or one.has_one_of(commits)))


def publications_in_journal(state_dir: Path) -> tuple[Publication, ...]:
    """All that the journal announces, whether or not a row was committed: for programs that also
    serve a damaged store and change no file of it, and look themselves where the commits are."""
    return _lacking(_Journal.read(state_dir), frozenset(), is_lost=True)


def import_publications(store: Store, state_dir: Path, *, is_lost: bool = False) -> None:
    """Give the store the rows that only the journal has; `is_lost` if the store is a new one that
    takes the place of a lost one. Raises CannotRunError."""
    found = _Journal.read(state_dir, only_replaced=not is_lost)
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
        if not any(entry in found.latest for entry in entries):
            with suppress(OSError):
                path.unlink()


def _lacking(
    journal_now: _Journal, known: Collection[str], *, is_lost: bool
) -> tuple[Publication, ...]:
    """The publications of the journal that have no row, by the `known` tips of rows. An item's
    entry of its own that announces one counts only with `is_lost`: else its row was not committed,
    and nothing was published."""
    listed = [one for entries in journal_now.lists.values() for one in entries]
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for entry in journal_now.latest:
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
