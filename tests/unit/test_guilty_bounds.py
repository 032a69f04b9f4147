"""How many runs two guilty pairs among eight items cost, whoever they are and whatever is red."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from driver.merge_queue.bisect import find_culprits
from driver.merge_queue.culprits import Answer, Found, Items, Question

EIGHT = frozenset(range(8))
SECOND_LOOK = 1  # at the tests that were red on the tree of all
Pair = tuple[int, int]


class Counted:
    """Tests that are red on trees with a whole pair of theirs; a tree that is tested is a run."""

    def __init__(self, pairs: Sequence[tuple[Pair, frozenset[int]]]) -> None:
        self._pairs = pairs
        self._known: set[Question] = set()
        self.runs = SECOND_LOOK

    def __call__(self, questions: Sequence[Question]) -> dict[Question, Answer]:
        new = {q for q in questions if len(q.items) > 1} - self._known  # alone: proven before
        self.runs += len({q.items for q in new})
        self._known |= new
        return {q: Answer.RED if self._is_red(q) else Answer.GREEN for q in questions}

    def _is_red(self, question: Question) -> bool:
        return any(
            {*pair} <= question.items and question.test in tests for pair, tests in self._pairs
        )


def two_pairs() -> Iterator[tuple[Pair, Pair]]:
    pairs = itertools.combinations(itertools.combinations(range(8), 2), 2)
    return ((a, b) for a, b in pairs if not {*a} & {*b})


def red_tests(pair: Pair) -> list[frozenset[int]]:
    return [frozenset(pair[:1]), frozenset(pair[1:]), frozenset(pair)]


def check(found: Found, *pairs: Pair) -> None:
    """The later one of each pair is left out, blamed for the pair and nothing else."""
    assert [(blame.item, blame.items) for blame in found.culprits] == sorted(
        (max(pair), frozenset(pair)) for pair in pairs
    )


def six_ship(first: Pair, second: Pair, *red: frozenset[int]) -> int:
    counted = Counted([(first, red[0]), (second, red[1])])
    check(find_culprits([frozenset({n}) for n in range(8)], counted), first, second)
    return counted.runs


def every_form() -> list[tuple[Pair, Pair, frozenset[int], frozenset[int]]]:
    return [(a, b, x, y) for a, b in two_pairs() for x in red_tests(a) for y in red_tests(b)]


def test_the_innocent_six_of_eight_ship_within_twelve_runs_whichever_tests_are_red() -> None:
    assert max(six_ship(*form) for form in every_form()) == 12


def test_with_one_command_for_all_they_ship_within_seventeen_runs_and_fourteen_in_the_mean() -> (
    None
):
    """Twelve are not enough for any search: see `distinguished`."""
    runs = []
    for pairs in two_pairs():
        counted = Counted([(pair, frozenset({0})) for pair in pairs])
        check(find_culprits([EIGHT], counted), *pairs)
        runs.append(counted.runs)
    assert max(runs) <= 17
    assert sum(runs) / len(runs) < 14.1
    assert distinguished(7, 12 - 2 - 7) < len(runs)


def distinguished(shown: int, other: int) -> int:
    """How many answers a search by yes and no can tell apart at most, `shown` of whose runs have
    to have one result each: both pairs red, and the commits of the line, of two to six items,
    green. `other` is how many may be anything else; two more went before, the first red and the
    second look at it."""
    if not shown or not other:
        return 1
    less = distinguished(shown, other - 1)
    return max(distinguished(shown - 1, other) + less, 2 * less)


def test_one_that_breaks_the_command_of_all_goes_alone_within_ten_runs() -> None:
    counted = Counted([((0, n), frozenset({0})) for n in range(1, 8)])
    found = find_culprits([EIGHT], counted)
    assert found.kept == (1, 2, 3, 4, 5, 6, 7)
    assert counted.runs <= 10


def test_a_long_line_with_one_command_is_searched_by_halves() -> None:
    owners: list[Items] = [frozenset(range(64))]
    counted = Counted([((3, 62), frozenset({0}))])
    check(find_culprits(owners, counted), (3, 62))
    in_between = 64 - 3
    assert counted.runs <= 12 + in_between
