"""Finds the items that break together, by tests on the trees of subsets. Pure. Earlier commits are
kept in preference. The caller makes and tests the trees, and decides when a red test is accepted. A
test without an answer makes no item a culprit."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from driver.merge_queue.culprits import (
    Answer,
    Ask,
    Culprit,
    Found,
    Items,
    Question,
    minimal_removal,
)
from state_store.values.lazy_dataclass import dataclass, field

_VICTIMS_AT_ONCE = 8  # more victims mostly have the same cause, and each costs a test in every run
_CONFIRMED_EACH = 2  # two victims of one suspect are enough to evict it
_FEW = 3  # this few victims are in every run, and their pairs are tested one by one
_SHORT_BATCH = (
    8  # a longer batch is searched by halves, because testing item after item takes too long
)


@dataclass(frozen=True, slots=True)
class _Core:
    """Items whose tree is red by `test`. Without any one of them it would be green."""

    items: Items
    test: int


class _NoAnswerError(Exception):
    """A test whose answer does not depend on the items."""

    def __init__(self, question: Question, answer: Answer) -> None:
        super().__init__(question, answer)
        self.question, self.answer = question, answer


def find_culprits(owners: Sequence[Items], ask: Ask) -> Found:
    """Find the largest green batch, and the culprits evicted from it.

    Every test is green on the whole batch, and each item's own test is green at its commit.
    `owners[test]` are the items that own a test; a test without owners runs on the whole batch
    only. Each item owns exactly one test, and counts as green by this test alone.
    """
    return _Search(owners, ask).found()


@dataclass(slots=True)
class _Search:
    owners: Sequence[Items]
    ask: Ask
    cores: list[_Core] = field(default_factory=list)
    unanswered: dict[int, Culprit] = field(default_factory=dict)

    def found(self) -> Found:
        everyone = frozenset[int]().union(*self.owners)
        while True:
            removed = minimal_removal([core.items for core in self.cores])
            kept = sorted(everyone - removed - self.unanswered.keys())
            if not kept or not self._objections(kept):
                evicted = sorted(everyone - {*kept})
                return Found(tuple(kept), tuple(map(self._culprit, evicted)))

    def _culprit(self, item: int) -> Culprit:
        if item in self.unanswered:
            return self.unanswered[item]
        core = next(core for core in self.cores if item in core.items)
        return Culprit(item, core.test, Answer.RED, core.items)

    def _objections(self, kept: Sequence[int]) -> bool:
        """True if a test is not green on this batch; remembers the reason for the next batch."""
        whole = frozenset(kept)
        tests = [t for t, owners in enumerate(self.owners) if not owners or owners & whole]
        in_batch = []
        for at, item in enumerate(kept, 1):
            own = next(test for test, owners in enumerate(self.owners) if item in owners)
            in_batch.append(Question(frozenset(kept[:at]), own))
        return self._settle([Question(whole, test) for test in tests]) or self._settle(in_batch)

    def _settle(self, questions: Sequence[Question]) -> bool:
        """Ask the questions and find the cause of every answer that is not green. True if there is
        one."""
        answers = self.ask(questions)
        bad = [question for question in questions if answers[question] is not Answer.GREEN]
        red = [question for question in bad if answers[question] is Answer.RED]
        for question in bad:
            if question not in red:
                self._give_up(question.items, question, answers[question])
        if red:
            first = red[0].items
            self._search(first, [question.test for question in red if question.items == first])
        return bool(bad)

    def _give_up(self, items: Items, question: Question, answer: Answer) -> None:
        """Evict the items of `items` whose test gave no answer; all of them if no item owns the
        test."""
        for item in self.owners[question.test] & items or items:
            self.unanswered.setdefault(item, Culprit(item, question.test, answer, question.items))

    def _search(self, items: Items, reds: Sequence[int]) -> None:
        """Find at least one core among `items`, or the reason why there is none."""
        try:
            singles = [test for test in reds if len(self.owners[test] & items) == 1]
            cores = self._by_halves(items, singles[:_VICTIMS_AT_ONCE])
            test = (singles or reds)[0]
            in_turn = items <= self.owners[test] and len(items) <= _SHORT_BATCH
            if not cores and in_turn:
                cores = self._one_after_the_other(items, test)
            elif not cores:
                cores = [self._by_steps(items, test)]
        except _NoAnswerError as nothing:
            self._give_up(items, nothing.question, nothing.answer)
            return
        self.cores += [core for core in cores if core.items]
        for core in cores:
            if not core.items:  # red whatever is left out
                self._give_up(items, Question(core.items, core.test), Answer.RED)

    def _is_red(self, items: Items, test: int) -> bool:
        return self._reds([Question(items, test)])[0]

    def _reds(self, questions: Sequence[Question]) -> list[bool]:
        answers = self.ask(questions)
        for question in questions:
            if answers[question] not in (Answer.GREEN, Answer.RED):
                raise _NoAnswerError(question, answers[question])
        return [answers[question] is Answer.RED for question in questions]

    # One culprit for each victim: all at once

    def _by_halves(self, items: Items, tests: Sequence[int]) -> list[_Core]:
        """The confirmed pairs of a victim, the only owner of a test, and one other item.

        Every other item has a number. Each run holds the items with the same binary digit in one
        position, so the pattern of red runs gives the number of the culprit. The runs serve all
        victims.
        """
        victims = {test: min(self.owners[test] & items) for test in tests}
        everyone = sorted(victims.values())
        inside = self._red_among(everyone, victims) if len(victims) > _FEW else frozenset()
        outside = {test: victim for test, victim in victims.items() if test not in inside}
        suspects = self._spelled(items, outside, everyone, sorted(items - {*everyone}))
        missing = {test: victim for test, victim in victims.items() if test not in suspects}
        if 1 < len(missing) <= _FEW + 1:
            cores = self._one_by_one(missing, everyone)
        else:
            cores = []
            if len(victims) > 1:
                suspects |= self._spelled(frozenset(everyone), missing, [], everyone)
        asked, times = [], Counter[int]()
        for test, suspect in suspects.items():
            times[suspect] += 1
            if times[suspect] <= _CONFIRMED_EACH:
                asked.append(Question(frozenset((victims[test], suspect)), test))
        return cores + self._red_cores(asked)

    def _one_by_one(self, victims: Mapping[int, int], others: Sequence[int]) -> list[_Core]:
        """The red pairs among a few victims and the others. Each pair is tested with every test
        that it may explain: two items that break each other are found at once, and the last two for
        certain."""
        cores: list[_Core] = []
        left = {victim: test for test, victim in victims.items()}
        pairs = [frozenset(pair) for pair in itertools.combinations(others, 2)]
        while pairs := [pair for pair in pairs if pair & left.keys()]:
            pair = max(pairs, key=lambda pair: len(pair & left.keys()))  # the first of equal pairs
            pairs.remove(pair)
            found = self._red_cores([Question(pair, left[v]) for v in sorted(pair & left.keys())])
            for core in found:
                del left[min(self.owners[core.test] & pair)]
            cores += found
        return cores

    def _red_cores(self, asked: Sequence[Question]) -> list[_Core]:
        answers = self._reds(asked)
        return [_Core(q.items, q.test) for q, red in zip(asked, answers, strict=True) if red]

    def _red_among(self, everyone: Sequence[int], tests: Iterable[int]) -> frozenset[int]:
        """The tests that are red on the tree of the victims alone."""
        asked = [Question(frozenset(everyone), test) for test in tests]
        return frozenset(core.test for core in self._red_cores(asked))

    def _spelled(
        self,
        items: Items,
        victims: Mapping[int, int],
        always: Sequence[int],
        others: Sequence[int],
    ) -> dict[int, int]:
        """The item among `others` that explains each test. `always` are in every run, with number
        0, so no other item is found if one of them is the culprit."""
        if not victims or len(items) < 2:
            return {}
        numbers = dict.fromkeys(always, 0) | {
            other: number for number, other in enumerate(others, start=1 if always else 0)
        }
        digits = range(max(numbers.values()).bit_length())
        asked = {
            (test, digit): Question(_alike(numbers, numbers[victim], digit), test)
            for test, victim in victims.items()
            for digit in digits
        }
        red = dict(zip(asked, self._reds([*asked.values()]), strict=True))
        back = {number: other for other, number in numbers.items() if other in others}
        spelled = {
            test: back.get(_spell([red[test, digit] for digit in digits], numbers[victim]))
            for test, victim in victims.items()
        }
        return {t: found for t, found in spelled.items() if found not in (None, victims[t])}

    # Any number of culprits: one after the other

    def _one_after_the_other(self, items: Items, test: int) -> list[_Core]:
        """The cores of a test that all items own, one for each item that cannot join the earlier
        items. The batch needs the green runs in any case, so only the red runs are extra."""
        batch: list[int] = []
        cores: list[_Core] = []
        for item in sorted(items):
            if not self._is_red(frozenset((*batch, item)), test):
                batch.append(item)
                continue
            core = self._with_partner(frozenset({item}), batch, test)
            shared = any(core.items & other.items for other in cores)
            cores.append(core)
            if shared:  # the shared item must go, and with it many later cores
                break
        return cores

    def _with_partner(self, core: Items, pool: Sequence[int], test: int) -> _Core:
        """The core that contains all of `core`. Once few items can be the partner, each pair is
        tested, which also confirms it."""
        green, red = self._narrowed(core, pool, test, _FEW)
        for other in pool[green:red]:
            if self._is_red(core | {other}, test):
                return _Core(core | {other}, test)
        return self._completed(core, pool[:red], test)

    def _by_steps(self, items: Items, test: int) -> _Core:
        """The core of one test. Each item is found by a search for the shortest red prefix."""
        owners = self.owners[test] & items
        if 1 < len(owners) < len(items) and self._is_red(owners, test):
            items = owners
        core = owners if len(owners) == 1 else frozenset[int]()
        if len(owners) < 2 and self._is_red(core, test):
            return _Core(core, test)
        return self._completed(core, sorted(items - core), test)

    def _completed(self, core: Items, pool: Sequence[int], test: int) -> _Core:
        """`core` with the fewest items of the pool that make it red."""
        while pool:
            _, length = self._narrowed(core, pool, test, 1)
            core |= {pool[length - 1]}
            pool = pool[: length - 1]
            if pool and self._may_ask(core, test) and self._is_red(core, test):
                break
        return _Core(core, test)

    def _narrowed(
        self, core: Items, pool: Sequence[int], test: int, within: int
    ) -> tuple[int, int]:
        """The lengths of a green and of a red prefix of the pool, which is red as a whole. They
        differ by at most `within`."""
        green, red = 0, len(pool)
        while red - green > within:
            middle = (green + red) // 2
            items = core | {*pool[:middle]}
            if self._may_ask(items, test) and self._is_red(items, test):
                red = middle
            else:
                green = middle
        return green, red

    def _may_ask(self, items: Items, test: int) -> bool:
        """False if the items do not own the test: it may be red because its owners are missing."""
        return not self.owners[test] or bool(self.owners[test] & items)


def _alike(numbers: Mapping[int, int], number: int, digit: int) -> Items:
    """The items whose binary `digit` equals the digit of `number`."""
    return frozenset(item for item, n in numbers.items() if not (n ^ number) >> digit & 1)


def _spell(reds: Sequence[bool], number: int) -> int:
    """The number with the digits of `number` in the positions of red runs, and other digits
    elsewhere."""
    differing = sum(1 << digit for digit, red in enumerate(reds) if not red)
    return number ^ differing
