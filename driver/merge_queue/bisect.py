"""Which of several items break together, found by asking for tests on the trees of subsets. Pure.

Of items the first in the order of their commits are kept in preference. How a tree is made
and tested, and when a red test is believed, is the asker's. What could not be told blames nobody.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from driver.merge_queue.culprits import (
    Answer,
    Ask,
    Culprit,
    Found,
    Items,
    Question,
    minimal_removal,
)

_VICTIMS_AT_ONCE = 8  # of more, most have the same cause, and every one costs a test in every run
_CONFIRMED_EACH = 2  # two victims of one suspect show already that the suspect has to go
_FEW = 3  # so few victims serve each other as company in every run, and are told apart one by one
_SHORT_LINE = 8  # a longer one is searched by halves: one item after the other takes too long


@dataclass(frozen=True, slots=True)
class _Core:
    """Items whose tree is red by `test`, and would be green without any one of them."""

    items: Items
    test: int


class _UntoldError(Exception):
    """A test whose answer says nothing, so that nobody can be blamed by it."""

    def __init__(self, question: Question, answer: Answer) -> None:
        super().__init__(question, answer)
        self.question, self.answer = question, answer


def find_culprits(owners: Sequence[Items], ask: Ask) -> Found:
    """The largest line of items that is green: as a whole by every test, and at each item's place
    by the item's own.

    `owners[test]` are the items whose own test it is; a test without owners is asked of the whole
    only. Each item has exactly one own test, and is taken to be green by it alone.
    """
    return _Search(owners, ask).found()


@dataclass(slots=True)
class _Search:
    owners: Sequence[Items]
    ask: Ask
    cores: list[_Core] = field(default_factory=list)
    untold: dict[int, Culprit] = field(default_factory=dict)

    def found(self) -> Found:
        everyone = frozenset[int]().union(*self.owners)
        while True:
            guilty = minimal_removal([core.items for core in self.cores])
            kept = sorted(everyone - guilty - self.untold.keys())
            if not kept or not self._objections(kept):
                left_out = sorted(everyone - {*kept})
                return Found(tuple(kept), tuple(map(self._blame, left_out)))

    def _blame(self, item: int) -> Culprit:
        if item in self.untold:
            return self.untold[item]
        core = next(core for core in self.cores if item in core.items)
        return Culprit(item, core.test, Answer.RED, core.items)

    def _objections(self, kept: Sequence[int]) -> bool:
        """Whether anything speaks against this line; it is remembered, and is gone next time."""
        whole = frozenset(kept)
        tests = [t for t, owners in enumerate(self.owners) if not owners or owners & whole]
        together = [Question(whole, test) for test in tests]
        places = [frozenset(kept[: at + 1]) for at in range(len(kept))]
        in_line = [Question(items, self._own(max(items))) for items in places]
        return self._settle(together) or self._settle(in_line)

    def _own(self, item: int) -> int:
        return next(test for test, owners in enumerate(self.owners) if item in owners)

    def _settle(self, questions: Sequence[Question]) -> bool:
        """Ask, and find out what is behind every answer that is not green."""
        answers = self.ask(questions)
        bad = [question for question in questions if answers[question] is not Answer.GREEN]
        told = []
        for question in bad:
            if answers[question] is Answer.RED:
                told.append(question)
            else:
                self._give_up(question.items, question, answers[question])
        if told:
            first = told[0].items
            self._search(first, [question.test for question in told if question.items == first])
        return bool(bad)

    def _give_up(self, items: Items, question: Question, answer: Answer) -> None:
        """Leave out those of `items` that the answer would have spoken for."""
        for item in self.owners[question.test] & items or items:
            self.untold.setdefault(item, Culprit(item, question.test, answer, question.items))

    def _search(self, items: Items, reds: Sequence[int]) -> None:
        """Find at least one core among `items`, or a reason why there is none to be found."""
        try:
            singles = [test for test in reds if len(self.owners[test] & items) == 1]
            cores = self._by_halves(items, singles[:_VICTIMS_AT_ONCE])
            cores = cores or self._of_one_test(items, (singles or reds)[0])
        except _UntoldError as untold:
            self._give_up(items, untold.question, untold.answer)
            return
        self.cores += [core for core in cores if core.items]
        for core in cores:
            if not core.items:  # red whatever is left out
                self._give_up(items, Question(core.items, core.test), Answer.RED)

    def _is_red(self, items: Items, test: int) -> bool:
        return self._told([Question(items, test)])[0]

    def _told(self, questions: Sequence[Question]) -> list[bool]:
        answers = self.ask(questions)
        for question in questions:
            if answers[question] not in (Answer.GREEN, Answer.RED):
                raise _UntoldError(question, answers[question])
        return [answers[question] is Answer.RED for question in questions]

    # One culprit for each victim: all at once

    def _by_halves(self, items: Items, tests: Sequence[int]) -> list[_Core]:
        """The confirmed pairs of a test's only owner, the victim, and one other item.

        Every other item has a number, every run holds those with one digit of it the same, and so
        which runs are red spells the culprit. The runs serve all victims.
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
        pairs = {test: frozenset((victims[test], other)) for test, other in suspects.items()}
        asked = [Question(pairs[test], test) for test in self._to_confirm(suspects)]
        return cores + self._red_cores(asked)

    def _one_by_one(self, victims: Mapping[int, int], others: Sequence[int]) -> list[_Core]:
        """The red pairs of a few victims and the others, each pair asked for all that it may
        explain: who break each other are done with at once, and the last two need no guess."""
        cores: list[_Core] = []
        left = {victim: test for test, victim in victims.items()}
        pairs = [frozenset(pair) for pair in itertools.combinations(others, 2)]
        while pairs := [pair for pair in pairs if pair & left.keys()]:
            pair = max(pairs, key=lambda pair: len(pair & left.keys()))  # of equals the first
            pairs.remove(pair)
            found = self._red_cores([Question(pair, left[v]) for v in sorted(pair & left.keys())])
            for core in found:
                del left[min(self.owners[core.test] & pair)]
            cores += found
        return cores

    def _red_cores(self, asked: Sequence[Question]) -> list[_Core]:
        answers = self._told(asked)
        return [_Core(q.items, q.test) for q, red in zip(asked, answers, strict=True) if red]

    def _red_among(self, everyone: Sequence[int], tests: Iterable[int]) -> frozenset[int]:
        """The tests that need no other item than the victims to be red."""
        asked = [Question(frozenset(everyone), test) for test in tests]
        answers = self._told(asked)
        return frozenset(q.test for q, red in zip(asked, answers, strict=True) if red)

    def _spelled(
        self,
        items: Items,
        victims: Mapping[int, int],
        always: Sequence[int],
        others: Sequence[int],
    ) -> dict[int, int]:
        """By test, the one of `others` that explains it; `always` are in every run, with number 0,
        so that none of the others is found where one of them is the culprit."""
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
        red = dict(zip(asked, self._told([*asked.values()]), strict=True))
        back = {number: other for other, number in numbers.items() if other in others}
        spelled = {
            test: back.get(_spell([red[test, digit] for digit in digits], numbers[victim]))
            for test, victim in victims.items()
        }
        return {t: found for t, found in spelled.items() if found not in (None, victims[t])}

    def _to_confirm(self, suspects: Mapping[int, int]) -> Iterator[int]:
        blamed: dict[int, int] = defaultdict(int)
        for test, suspect in suspects.items():
            blamed[suspect] += 1
            if blamed[suspect] <= _CONFIRMED_EACH:
                yield test

    # Any number of culprits: one after the other

    def _of_one_test(self, items: Items, test: int) -> list[_Core]:
        if items <= self.owners[test] and len(items) <= _SHORT_LINE:
            return self._along_the_line(items, test)
        return [self._by_steps(items, test)]

    def _along_the_line(self, items: Items, test: int) -> list[_Core]:
        """The cores of everybody's test, one for each item that cannot join those before it. What
        is green on the way has to be shown of the line in the end, so only the reds are extra."""
        line: list[int] = []
        cores: list[_Core] = []
        for item in sorted(items):
            if not self._is_red(frozenset((*line, item)), test):
                line.append(item)
                continue
            core = self._with_partner(frozenset({item}), line, test)
            shared = any(core.items & other.items for other in cores)
            cores.append(core)
            if shared:  # it is the one to go, and much of what is still to come with it
                break
        return cores

    def _with_partner(self, core: Items, pool: Sequence[int], test: int) -> _Core:
        """The core that has all of `core`: a pair is asked for by itself as soon as few are left
        that can be the other one, which shows it as well."""
        green, red = 0, len(pool)
        while red - green > _FEW:
            middle = (green + red) // 2
            if self._is_red(core | {*pool[:middle]}, test):
                red = middle
            else:
                green = middle
        for other in pool[green:red]:
            if self._is_red(core | {other}, test):
                return _Core(core | {other}, test)
        return self._completed(core, pool[:red], test)

    def _by_steps(self, items: Items, test: int) -> _Core:
        """The core of one test, each of its items by a search for the shortest red beginning."""
        owners = self.owners[test] & items
        if 1 < len(owners) < len(items) and self._is_red(owners, test):
            items = owners
        core = owners if len(owners) == 1 else frozenset[int]()
        if len(owners) < 2 and self._is_red(core, test):
            return _Core(core, test)
        return self._completed(core, sorted(items - core), test)

    def _completed(self, core: Items, pool: Sequence[int], test: int) -> _Core:
        """`core` with as few of the pool as it needs to be red."""
        while pool:
            length = self._shortest_red(core, pool, test)
            core |= {pool[length - 1]}
            pool = pool[: length - 1]
            if pool and self._may_ask(core, test) and self._is_red(core, test):
                break
        return _Core(core, test)

    def _shortest_red(self, core: Items, pool: Sequence[int], test: int) -> int:
        """How much of the pool, which is red as a whole, is needed for red."""
        green, red = 0, len(pool)
        while red - green > 1:
            middle = (green + red) // 2
            items = core | {*pool[:middle]}
            # Without any of its owners a test may be red for want of their work.
            if self._may_ask(items, test) and self._is_red(items, test):
                red = middle
            else:
                green = middle
        return red

    def _may_ask(self, items: Items, test: int) -> bool:
        return not self.owners[test] or bool(self.owners[test] & items)


def _alike(numbers: Mapping[int, int], number: int, digit: int) -> Items:
    """The items whose binary `digit` is that of `number`."""
    return frozenset(item for item, n in numbers.items() if not (n ^ number) >> digit & 1)


def _spell(reds: Sequence[bool], number: int) -> int:
    """The number that has the digits of `number` where the run was red, and others elsewhere."""
    differing = sum(1 << digit for digit, red in enumerate(reds) if not red)
    return number ^ differing
