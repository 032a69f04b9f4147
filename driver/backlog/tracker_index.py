"""The tracker index: the checked open items of a tracker in order, and their dependencies.

Most items of a long tracker are done, and the index omits them. Of the others it has a few columns;
an item itself is parsed when it is asked for. `index_reader` keeps the index in a file.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, TypeVar

from driver.backlog.dependencies import KEY, linked_numbers
from driver.backlog.order import OrderedQueue, Part, Unordered, unordered
from driver.backlog.plain_items import faults_in
from driver.backlog.publication_status import is_shipped
from driver.backlog.retry_policy import NEXT
from driver.backlog.tracker import ambiguities, slug_keys
from state_store.documents.item_id import id_of, plain_ids
from state_store.documents.item_status import CLAIMED, FINISHED, IN_PROGRESS, OPEN, TODO
from state_store.tracker.file import ids_twice
from state_store.values.columns import Block, column
from state_store.values.lazy_dataclass import dataclass, field

Item = Mapping[str, Any]
Change = tuple[int, Item, Item]  # the number of an entry, and what it was and is
_Value = TypeVar("_Value")
_FEW = 20  # numbers, which are found one by one in less time than all positions are noted
_FINISHED = tuple(FINISHED)  # a status can have any type, even an unhashable one


@dataclass(frozen=True)
class TrackerIndex:
    """The index of a tracker whose bytes have the SHA-256 `digest`. Numbers are those of the
    tracker's entries.

    `open_numbers` are the open items, most urgent first, with their `names` and `levels`. `faults`
    gives, by position in them, the reasons why an item cannot be built, without a parser's view of
    its test command. `linked_numbers` are the items that wait for a time or for other items, and
    those other items too. `shipped_numbers` are the items that wait for their merge, `claimed` and
    `nameless` the open ones that are claimed or have no id. `has_repo` is True if an open item
    names its repository. `problems` are the duplicate ids and slugs that stop a run. `non_objects`
    has a sentence for each entry that is no object. `twice` are the duplicate ids. `statuses`
    counts all items.
    """

    digest: str
    entries: Sequence[Any] = field(compare=False, repr=False)
    open_numbers: Sequence[int]
    names: Sequence[str]
    levels: Sequence[int]
    faults: Mapping[int, tuple[str, ...]]
    linked_numbers: Sequence[int]
    shipped_numbers: Sequence[int]
    claimed: Sequence[int]
    nameless: Sequence[int]
    has_repo: bool
    problems: tuple[str, ...]
    non_objects: tuple[str, ...]
    twice: frozenset[str]
    statuses: Mapping[str, int]

    @cached_property
    def todo(self) -> OrderedQueue:
        """The open items, most urgent first."""
        return OrderedQueue(Part(self.entries, self.open_numbers), self.names, self.levels)

    @cached_property
    def linked(self) -> tuple[Item, ...]:
        """The items of `linked_numbers`, in the tracker's order."""
        return tuple(Part(self.entries, self.linked_numbers))

    @cached_property
    def shipped(self) -> tuple[Item, ...]:
        """The items of `shipped_numbers`."""
        return tuple(Part(self.entries, self.shipped_numbers))

    def own_todo(self) -> OrderedQueue:
        """The open items with a unique id."""
        if not self.twice and not self.nameless:
            return self.todo
        nameless = set(self.nameless)
        both = enumerate(zip(self.open_numbers, self.names, strict=True))
        mine = [n for n, (at, name) in both if name not in self.twice and at not in nameless]
        return self.todo.at(mine)

    def own_claimed(self) -> list[Item]:
        """The claimed items with a unique id."""
        items = (self.entries[number] for number in self.claimed)
        return [item for item in items if id_of(item) not in {None, *self.twice}]

    def changed(self, changes: Iterable[Change], digest: str) -> TrackerIndex | None:
        """The index after changes of single items, as a builder would make it; more items may be
        `linked` than it would have. None if only a builder can tell."""
        if self.problems or self.twice or self.nameless:
            return None
        gone, statuses = set[int](), Counter(self.statuses)
        sets = [set(self.linked_numbers), set(self.shipped_numbers), set(self.claimed)]
        linked, shipped, claimed = sets
        changes = tuple(changes)
        positions = _positions(self.open_numbers, {number for number, _, _ in changes})
        for number, before, after in changes:
            was, now = before.get("status"), after.get("status")
            at = None if number in gone else positions.get(number)
            if before.get(KEY) != after.get(KEY) or (at is None and now in OPEN):
                return None
            if now in OPEN and (at in self.faults or not _is_alike(before, after)):
                return None
            statuses.subtract((str(was),))
            statuses.update((str(now),))
            if now not in OPEN:
                gone.add(number)
            _put(linked, number, number in linked or after.get(NEXT) is not None)
            _put(shipped, number, now == IN_PROGRESS and is_shipped(after))
            _put(claimed, number, now == CLAIMED)
        places = sorted(at for number, at in positions.items() if number in gone)
        closed = set(places)
        faults = [(at, why) for at, why in self.faults.items() if at not in closed]
        return replace(
            self,
            digest=digest,
            open_numbers=_without(self.open_numbers, places),
            names=_without(self.names, places),
            levels=_without(self.levels, places),
            faults={at - bisect_left(places, at): why for at, why in faults},
            linked_numbers=sorted(linked),
            shipped_numbers=sorted(shipped),
            claimed=sorted(claimed),
            statuses=+statuses,
        )


def _positions(numbers: Sequence[int], wanted: Collection[int]) -> dict[int, int]:
    """The position of each wanted number that is there."""
    if len(wanted) > _FEW:
        return {number: at for at, number in enumerate(numbers) if number in wanted}
    found: dict[int, int] = {}
    for number in wanted:
        with suppress(ValueError):
            found[number] = numbers.index(number)
    return found


def _without(values: Sequence[_Value], places: Sequence[int]) -> Sequence[_Value]:
    """The values without those at these places, which ascend."""
    if not places:
        return values
    ends = [-1, *places, len(values)]
    return list(chain.from_iterable(values[a + 1 : b] for a, b in pairwise(ends)))


def _put(numbers: set[int], number: int, is_in: bool) -> None:
    (numbers.add if is_in else numbers.discard)(number)


def _is_alike(before: Item, after: Item) -> bool:
    """True if an item that stays open has the same place in the queue, and is sound."""
    keys = ("id", "slug", "repo")
    same = [before.get(key) for key in keys] == [after.get(key) for key in keys]
    return (
        same
        and unordered([before]).keys() == unordered([after]).keys()
        and not any(True for _ in faults_in([after]))
    )


class IndexBuilder:
    """Makes an index of entries that it is given block by block, and never looks at again."""

    def __init__(self) -> None:
        self._todo, self._numbers = Unordered(), list[int]()
        self._faults: dict[int, tuple[str, ...]] = {}
        self._slugs: list[str] = []
        self._ids: list[str | None] = []
        self._statuses: Counter[str] = Counter()
        self._asking: list[tuple[int, Item]] = []
        self._timed, self._claimed, self._nameless = list[int](), list[int](), list[int]()
        self._shipped: list[tuple[int, str | None]] = []
        self._has_repo = False

    def add(self, first: int, block: Block) -> None:
        """Add the entries from this number on. All are objects."""
        states = block.column("status")
        numbers = range(first, first + len(block))
        if states.count(TODO) == len(states):  # without a look at each
            self._statuses[TODO] += len(states)
            if not block.fields.isdisjoint((KEY, NEXT)):
                self._add_unfinished(list(zip(numbers, block, strict=True)))
            self._add_open(numbers, block)
            return
        both = list(zip(numbers, block, strict=True))
        self._statuses.update(map(str, states))
        pairs = list(zip(both, states, strict=True))
        # Most of a long tracker is done; this is the only pass over those items.
        self._add_unfinished([one for one, state in pairs if state not in _FINISHED])
        under_way = [one for one, state in pairs if state == IN_PROGRESS]
        self._shipped += [(n, id_of(item)) for n, item in under_way if is_shipped(item)]
        self._claimed += [n for (n, _), state in pairs if state == CLAIMED]
        if mine := [one for one, state in pairs if state in OPEN]:
            self._add_open([n for n, _ in mine], Block([item for _, item in mine]))

    def _add_unfinished(self, items: Sequence[tuple[int, Item]]) -> None:
        self._asking += [(n, item) for n, item in items if KEY in item]
        self._timed += [n for n, item in items if item.get(NEXT) is not None]

    def _add_open(self, numbers: Sequence[int], opened: Block) -> None:
        known = len(self._numbers)
        self._faults.update((known + number, why) for number, why in faults_in(opened))
        self._slugs += slug_keys(opened)
        ids: Sequence[str | None] = plain_ids(opened) or [id_of(item) for item in opened]
        self._ids += ids
        if None in ids:
            self._nameless += [n for n, name in zip(numbers, ids, strict=True) if name is None]
        self._has_repo = self._has_repo or any(column(opened, "repo"))
        self._numbers += numbers
        self._todo.add(opened, keep=False)

    def index(
        self,
        digest: str,
        entries: Sequence[Any],
        ids: Sequence[str | None],
        non_objects: Sequence[str],
    ) -> TrackerIndex:
        """The index of all that was added. `ids` are those of all entries."""
        twice = ids_twice(ids)
        order, not_own = self._todo.order(), {None, *twice}
        asking = linked_numbers(entries, ids, self._asking) if self._asking else ()
        return TrackerIndex(
            digest=digest,
            entries=entries,
            open_numbers=[self._numbers[n] for n in order],
            names=[self._todo.names[n] for n in order],
            levels=[self._todo.levels[n] for n in order],
            faults={n: self._faults[was] for n, was in enumerate(order) if was in self._faults},
            linked_numbers=sorted({*self._timed, *asking}),
            shipped_numbers=[n for n, name in self._shipped if name not in not_own],
            claimed=self._claimed,
            nameless=self._nameless,
            has_repo=self._has_repo,
            problems=ambiguities(twice, self._ids, self._slugs),
            non_objects=tuple(non_objects),
            twice=twice,
            statuses=self._statuses,
        )
