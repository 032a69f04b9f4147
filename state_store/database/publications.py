"""The publications table: each batch of commits that a run announced, and how far it came.

Works on a connection that is handed in. A row is written before anything is published, so that
whatever a kill cuts off is found and finished (a transactional outbox). Rows only move forward.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator

from state_store.sql.connection import Connection
from state_store.values.lazy_dataclass import asdict, dataclass, replace

ANNOUNCED = "announced"
ON_BRANCH = "on branch"
PUSHED = "pushed"
PROPOSED = "proposed"
MERGED = "merged"
DROPPED = "dropped"
STATES = (ANNOUNCED, ON_BRANCH, PUSHED, PROPOSED, MERGED, DROPPED)
_ENDS = (MERGED, DROPPED)
OPEN = "open"  # the state of an item whose end is not recorded
SHIPPED = "shipped"
_ITEM_STATES = (OPEN, SHIPPED, DROPPED)
_MOST_ASKED = 500
_COLUMNS = "tip, repo, wave, branch, target, state, items"


@dataclass(frozen=True, slots=True)
class PublishedCommit:
    """An item of a publication: its commit, and `state`, which is OPEN, SHIPPED or DROPPED."""

    slug: str
    commit: str
    state: str = OPEN


@dataclass(frozen=True, slots=True)
class Publication:
    """Commits up to `tip`, to be kept on `branch`; they go onto the branch `target`, None if
    `branch` itself is what ships. `repo` is the top of their repository, "" if it is unknown."""

    tip: str
    repo: str
    wave: str
    branch: str
    target: str | None
    items: tuple[PublishedCommit, ...]
    state: str = ANNOUNCED

    @property
    def open_slugs(self) -> frozenset[str]:
        """The items whose end is not recorded."""
        return frozenset(one.slug for one in self.items if one.state == OPEN)

    def has(self, commit: str) -> bool:
        """True if the commit is an item's."""
        return any(one.commit == commit for one in self.items)

    def has_one_of(self, commits: Collection[str]) -> bool:
        """True if one of the commits is an item's."""
        return any(one.commit in commits for one in self.items)

    def is_dropped(self, slug: str) -> bool:
        """True if the item's commit is not going to be published any more."""
        return any(one.slug == slug and one.state == DROPPED for one in self.items)

    def with_state(self, state: str, of: Callable[[PublishedCommit], bool]) -> Publication:
        """The publication with `state` in those of its items that `of` chooses."""
        items = (replace(one, state=state) if of(one) else one for one in self.items)
        return replace(self, items=tuple(items))

    def is_of(self, *places: str | None) -> bool:
        """True if the commits are, or may be, of a repository at one of `places`."""
        return not self.repo or self.repo in places

    def is_open_for(self, slug: str, *places: str | None) -> bool:
        """True if the end of an item of a repository at one of `places` is not recorded."""
        return slug in self.open_slugs and self.is_of(*places)


class PublicationBook:
    """The rows, within one transaction or for reading only."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def announce(self, new: Publication, now: float) -> None:
        """Add a row. What earlier rows have open of the same items is dropped."""
        for slug in new.open_slugs:
            self.drop(slug, now, new.repo)
        self._put(new, now)

    def advance(self, tip: str, state: str, now: float) -> None:
        """Move the publication forward to `state`; a later one stays. An end is one of all its
        open items, too."""
        for one in self._found("WHERE tip = ?", tip):
            if STATES.index(state) > STATES.index(one.state) and one.state not in _ENDS:
                moved = replace(one, state=state)
                if state in _ENDS:
                    end = SHIPPED if state == MERGED else DROPPED
                    moved = moved.with_state(end, lambda item: item.state == OPEN)
                self._put(moved, now)

    def end(self, commit: str, state: str, now: float) -> None:
        """The publication that has an item's commit came to its end."""
        for tip in [one.tip for one in self.all() if one.has(commit)]:
            self.advance(tip, state, now)

    def mark(self, slug: str, commit: str, now: float, branch: str | None = None) -> None:
        """An item's commit is shipped, to `branch` if it is not the one that was announced."""
        for one in self.all(only_open=True):
            if one.has(commit):
                marked = one.with_state(SHIPPED, lambda i: (i.slug, i.commit) == (slug, commit))
                self._put(replace(marked, branch=branch or one.branch), now)

    def drop(self, slug: str, now: float, *places: str | None) -> None:
        """Drop an item of a repository at one of `places` from all open publications: its work is
        shipped anew, if at all."""
        for one in self.all(only_open=True):
            if one.is_open_for(slug, *places):
                rest = one.with_state(DROPPED, lambda i: i.slug == slug and i.state == OPEN)
                over = all(item.state == DROPPED for item in rest.items)
                self._put(replace(rest, state=DROPPED if over else one.state), now)

    def all(
        self, *, only_open: bool = False, commits: Collection[str] | None = None
    ) -> tuple[Publication, ...]:
        """All rows, or those with open items or with one of `commits`, the oldest first."""
        still_open = "open > 0" if only_open else "1 = 1"
        asked = [one for one in commits or () if one.isascii()]  # a journal may name anything
        if commits is None or len(asked) > _MOST_ASKED:
            found = self._found(f"WHERE {still_open}")
        else:  # only rows whose text has one of them are decoded
            has = " OR ".join(["instr(items, ?) > 0"] * len(asked)) or "1 = 0"
            found = self._found(f"WHERE {still_open} AND ({has})", *asked)
        return tuple(one for one in found if commits is None or one.has_one_of(commits))

    def tips(self) -> frozenset[str]:
        """The tips of all rows."""
        return frozenset(tip for (tip,) in self._connection.execute("SELECT tip FROM publications"))

    def extent(self) -> tuple[int, int]:
        """The number of rows, and the last one. While they stay, the tips are the same: no run
        changes or removes one."""
        counted = "SELECT COUNT(*), COALESCE(MAX(id), 0) FROM publications"
        rows, last = self._connection.execute(counted).fetchone()
        return rows, last

    def _put(self, one: Publication, now: float) -> None:
        items = json.dumps([asdict(item) for item in one.items])
        row = (one.tip, one.repo, one.wave, one.branch, one.target, one.state, items)
        self._connection.execute(
            f"INSERT INTO publications({_COLUMNS}, open, changed) VALUES(?,?,?,?,?,?,?,?,?) "
            "ON CONFLICT(tip, repo) DO UPDATE SET wave = excluded.wave, branch = excluded.branch, "
            "target = excluded.target, state = excluded.state, items = excluded.items, "
            "open = excluded.open, changed = excluded.changed",
            (*row, len(one.open_slugs), now),
        )

    def _found(self, where: str, *values: str) -> Iterator[Publication]:
        query = f"SELECT {_COLUMNS} FROM publications {where} ORDER BY id"
        for row in self._connection.execute(query, values).fetchall():
            try:
                yield _publication(*row)
            except (ValueError, TypeError) as error:  # a flipped bit
                raise sqlite3.DatabaseError("a row of publications is damaged") from error


def damaged_rows(connection: Connection) -> Iterator[str]:
    """A sentence about each row that a run could not read, or that has a state no run writes."""
    query = f"SELECT id, open, {_COLUMNS} FROM publications ORDER BY id"
    for number, still_open, *row in connection.execute(query).fetchall():
        where = f"row {number} of the publications"
        try:
            found = _publication(*row)
        except (ValueError, TypeError) as error:
            yield f"{where} cannot be read: {error}"
            continue
        if found.state not in STATES or any(i.state not in _ITEM_STATES for i in found.items):
            yield f"{where} has an unknown state"
        elif still_open != len(found.open_slugs):
            yield f"{where} counts {still_open} open items, but lists {len(found.open_slugs)}"


def _publication(*row: str) -> Publication:
    """The publication of a row's `_COLUMNS`. Raises ValueError and TypeError for damaged items."""
    tip, repo, wave, branch, target, state, items = row
    commits = tuple(PublishedCommit(**item) for item in json.loads(items))
    return Publication(tip, repo, wave, branch, target, commits, state)
