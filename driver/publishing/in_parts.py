"""Ships the rest of a batch if the remote refuses the content of some of its items.

The remote's words name the items, or halves of the batch are pushed until one item is left. Each
part is a shipment of its own, announced like every other one. Later parts go on to the branch of
the first, so a wave has one branch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from driver.domain.results import ItemOutcome, Verdict
from driver.domain.shipment import Shipment
from driver.merge_queue.batch import Entry
from driver.publishing.publish import (
    NOTHING_LEFT,
    PUSH_FAILED,
    CommittedBatch,
    hold,
    withdraw,
)
from driver.publishing.refused_content import Content, named_in, said
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import dataclass, field, replace

_REFUSED = "the remote refuses its content: "


class Shipping(Protocol):
    """Ships parts of one repository's work. `work` is the batch that was published last."""

    work: CommittedBatch | None

    def ship(self, entries: Sequence[Entry]) -> Shipment:
        """Integrate, commit and publish these items."""
        ...

    def is_refused(self, shipment: Shipment) -> bool:
        """True if the remote refused the last batch, perhaps for its content."""
        ...

    def go_on_from(self, shipment: Shipment) -> None:
        """Put later parts on the commits of this one, which the remote has accepted."""
        ...


@dataclass
class _Search:
    """The search for refused items.

    `suspects` contain refused content, and the first `later_suspects` of `pending` do if the
    suspects do not. `words` are of the last refusal; `refusals` counts those since the remote
    accepted a part or named an item. `lone` items are each the last of a search: they are to blame
    only if the remote accepts other items.
    """

    suspects: list[Entry]
    words: str
    pending: list[Entry] = field(default_factory=list)
    later_suspects: int = 0
    refusals: int = 0
    done: list[Shipment] = field(default_factory=list)
    left_out: dict[str, ItemOutcome] = field(default_factory=dict)
    lone: list[tuple[ItemOutcome, str]] = field(default_factory=list)
    problem: str = ""

    def next_part(self, named: dict[str, str]) -> list[Entry]:
        """The items to ship next: without those that the last refusal named, or else the first half
        of the suspects."""
        if named:
            self.refusals = 0
            for item, outcome in self.suspects:
                if item.slug in named:
                    self.leave_out(outcome, Verdict.REFUSED, _REFUSED + named[item.slug])
            self.suspects = [one for one in self.suspects if one[0].slug not in named]
        elif len(self.suspects) == 1:
            self.lone.append((self.suspects[0][1], said(self.words)))
            self.suspects = []
        elif self.suspects:
            half = len(self.suspects) // 2
            self.pending = self.suspects[half:] + self.pending
            self.later_suspects = len(self.suspects) - half
            self.suspects = self.suspects[:half]
            return self.suspects
        self.suspects, self.pending, self.later_suspects = self.suspects + self.pending, [], 0
        return self.suspects

    def refused(self, batch: Sequence[Entry], words: str) -> None:
        """Note that the remote refused this part."""
        self.suspects, self.words = [*batch], words
        self.refusals += 1

    def cleared(self) -> None:
        """Note that no suspect is refused or left: others are."""
        self.suspects = self.pending[: self.later_suspects]
        self.pending = self.pending[self.later_suspects :]
        self.later_suspects = self.refusals = 0

    def leave_out(self, outcome: ItemOutcome, verdict: Verdict, reason: str) -> None:
        """Ship the item no more in this run."""
        self.left_out[outcome.slug] = replace(outcome, verdict=verdict, reason=reason)


def ship_in_parts(shipping: Shipping, whole: Shipment) -> Shipment:
    """Ship what the remote takes of a batch that it refused as a whole, and leave out the items
    that it refuses. If it refuses everything, the batch is kept as it was.

    Raises the errors of a shipment while nothing has been published.
    """
    work = shipping.work
    if work is None or whole.branch is None:
        return whole
    search = _Search([*work.batch.entries], whole.refusal)
    most = math.ceil(math.log2(len(search.suspects))) + 2
    named = _named(work, search)
    if len(search.suspects) == 1 and not named:
        return whole
    withdraw(work, whole.branch)
    try:
        while (part := search.next_part(named)) and search.refusals < most:
            named = _ship_part(shipping, part, search)
            if search.problem:
                break
    except (TidegateError, OSError) as error:
        if not search.done:
            raise
        search.problem = str(error)
    if not (search.done or search.left_out or search.problem):
        hold(work, whole.branch)
        return whole
    return _result(whole, search)


def _ship_part(shipping: Shipping, part: Sequence[Entry], search: _Search) -> dict[str, str]:
    """Ship a part; the items that the remote names if it refuses that, with its words."""
    answer = shipping.ship(part)
    for outcome in answer.evicted:  # for reasons of its own
        search.left_out[outcome.slug] = outcome
    work = shipping.work
    if work is not None and answer.branch is not None and shipping.is_refused(answer):
        withdraw(work, answer.branch)
        search.refused(work.batch.entries, answer.refusal)
        return _named(work, search)
    if not answer.error:
        search.done.append(answer)
        shipping.go_on_from(answer)
    elif answer.error != NOTHING_LEFT:
        search.problem = answer.detail or answer.error
        return {}
    search.cleared()
    return {}


def _named(work: CommittedBatch, search: _Search) -> dict[str, str]:
    pairs = zip(work.batch.entries, work.commits, strict=True)
    contents = [Content(i.slug, made.commit, outcome.changes) for (i, outcome), made in pairs]
    return named_in(search.words, contents)


def _result(whole: Shipment, search: _Search) -> Shipment:
    """The shipment of all parts together."""
    shipped = {slug for part in search.done for slug, _ in part.commits}
    if search.done:
        for outcome, words in search.lone:
            search.leave_out(outcome, Verdict.REFUSED, _REFUSED + words)
    why = search.problem or f"the remote refuses it together with others: {said(search.words)}"
    known = [outcome for _, outcome in (*search.suspects, *search.pending)]
    for outcome in (*known, *(one for one, _ in search.lone)):
        if outcome.slug not in shipped and outcome.slug not in search.left_out:
            search.leave_out(outcome, Verdict.UNDECIDED, f"not shipped: {why}")
    evicted = {one.slug: one for one in (*whole.evicted, *search.left_out.values())}
    rest = tuple(one for slug, one in evicted.items() if slug not in shipped)
    if not search.done:
        return replace(
            whole,
            branch=None,
            committed=False,
            kept=None,
            evicted=rest,
            error=PUSH_FAILED,
            detail=whole.detail.partition(" (kept on branch")[0],
        )
    last = search.done[-1]
    return replace(
        last,
        evicted=rest,
        onto=search.done[0].onto,
        commits=tuple(one for part in search.done for one in part.commits),
        trees=tuple(one for part in search.done for one in part.trees),
        batch_runs=tuple(one for part in search.done for one in part.batch_runs),
        files_count=sum(part.files_count for part in search.done),
    )
