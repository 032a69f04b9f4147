"""Who is left out when items break together: never an innocent, and with few runs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from driver.merge_queue.bisect import find_culprits
from driver.merge_queue.culprits import Answer, Culprit, Found, Items, Question, minimal_removal

# By test: the sets of items that are red by it.
Cores = Mapping[int, Sequence[set[int]]]


def blame(item: int, test: int, *company: int, answer: Answer = Answer.RED) -> Culprit:
    return Culprit(item, test, answer, frozenset({item, *company}))


class World:
    """Tests that are red exactly on trees holding one of their cores; counts trees as runs."""

    def __init__(
        self, cores: Cores, odd: Callable[[Question], Answer | None] | None = None
    ) -> None:
        self.cores = cores
        self.odd = odd
        self.known: dict[Question, Answer] = {}
        self.runs = 0
        self.tests = 0

    def __call__(self, questions: Sequence[Question]) -> dict[Question, Answer]:
        new = {q for q in questions if q not in self.known and not self._alone(q)}
        self.runs += len({q.items for q in new})
        self.tests += len(new)
        self.known |= {q: self._answer(q) for q in questions}
        return {q: self.known[q] for q in questions}

    def _alone(self, question: Question) -> bool:
        return question.items == {question.test}  # the item's own proof

    def _answer(self, question: Question) -> Answer:
        odd = self.odd(question) if self.odd else None
        red = any(core <= question.items for core in self.cores.get(question.test, ()))
        return odd or (Answer.RED if red else Answer.GREEN)


def owned(count: int, shared: int = 0) -> list[Items]:
    """Each item with a test of its own, then tests that are nobody's."""
    return [*(frozenset({n}) for n in range(count)), *[frozenset[int]()] * shared]


def left_out(found: Found) -> set[int]:
    return {b.item for b in found.culprits}


def test_items_that_are_green_together_are_asked_once_and_once_each_in_their_places() -> None:
    world = World({})
    assert find_culprits(owned(8), world) == Found(tuple(range(8)), ())
    assert world.runs == 7


@pytest.mark.parametrize(
    ("count", "cores", "blamed"),
    [
        (2, {0: [{0, 1}]}, [blame(1, 0, 0)]),
        (2, {1: [{0, 1}]}, [blame(1, 1, 0)]),
        (2, {0: [{0, 1}], 1: [{0, 1}]}, [blame(1, 0, 0)]),
        (5, {1: [{1, 3}]}, [blame(3, 1, 1)]),
        (5, {3: [{1, 3}]}, [blame(3, 3, 1)]),
        # Two others, harmless each, break a third: the last of the three goes.
        (6, {1: [{1, 2, 4}]}, [blame(4, 1, 1, 2)]),
        # Two items break a test that has nothing to do with either.
        (6, {5: [{5, 1, 2}]}, [blame(5, 5, 1, 2)]),
    ],
)
def test_the_last_of_those_that_break_together_is_left_out_and_blamed(
    count: int, cores: Cores, blamed: list[Culprit]
) -> None:
    found = find_culprits(owned(count), World(cores))
    assert list(found.culprits) == blamed
    assert found.kept == tuple(n for n in range(count) if n not in left_out(found))


def test_one_that_breaks_everybody_s_test_goes_alone_even_if_it_comes_first() -> None:
    world = World({n: [{0, n}] for n in range(1, 8)})
    assert find_culprits(owned(8), world).kept == (1, 2, 3, 4, 5, 6, 7)
    assert world.runs <= 12


def test_one_whose_test_everybody_breaks_goes_alone() -> None:
    world = World({0: [{0, n} for n in range(1, 8)]})
    assert find_culprits(owned(8), world).kept == (1, 2, 3, 4, 5, 6, 7)


def test_a_test_that_is_red_only_at_its_place_in_the_line_is_found_too() -> None:
    def odd(question: Question) -> Answer | None:  # item 3 mends what 0 does to 2
        broken = question.test == 2 and {0, 2} <= question.items and 3 not in question.items
        return Answer.RED if broken else None

    found = find_culprits(owned(4), World({}, odd))
    assert found == Found((0, 1, 3), (blame(2, 2, 0),))


# Tests of several items, and of none


def test_one_command_that_is_everybody_s_test_blames_only_who_breaks_it() -> None:
    world = World({0: [{1, 4}, {3, 6}]})
    found = find_culprits([frozenset(range(8))], world)
    assert found.kept == (0, 1, 2, 3, 5, 7)
    assert found.culprits == (blame(4, 0, 1), blame(6, 0, 3))


def test_a_shared_test_is_never_asked_of_a_tree_without_any_of_its_items() -> None:
    asked: list[Items] = []

    def odd(question: Question) -> Answer | None:
        asked.append(question.items)
        return Answer.RED if not question.items & {5, 6} and question.test == 0 else None

    owners = [frozenset({5, 6}), *(frozenset({n}) for n in range(5))]
    found = find_culprits(owners, World({0: [{2, 5}]}, odd))
    assert left_out(found) == {5}


@pytest.mark.parametrize("core", [{4}, {2, 4}, {0, 3, 4}])
def test_a_command_that_is_nobody_s_test_blames_who_breaks_it(core: set[int]) -> None:
    found = find_culprits(owned(6, shared=1), World({6: [core]}))
    assert found.culprits == (blame(4, 6, *core),)


def test_a_command_that_is_red_without_any_item_blames_nobody_and_ships_nothing() -> None:
    found = find_culprits(owned(4, shared=1), World({4: [set()]}))
    assert found.kept == ()
    assert {(b.test, b.items) for b in found.culprits} == {(4, frozenset[int]())}


# Answers that say nothing


@pytest.mark.parametrize("answer", [Answer.SILENT, Answer.FLAKY])
def test_who_cannot_be_judged_is_left_out_and_nobody_is_blamed(answer: Answer) -> None:
    found = find_culprits(owned(4), World({}, lambda q: answer if q.test == 1 else None))
    assert found == Found((0, 2, 3), (blame(1, 1, 0, 2, 3, answer=answer),))


def test_a_search_that_meets_a_test_without_answer_blames_nobody() -> None:
    def odd(question: Question) -> Answer | None:
        small = question.test == 1 and 1 < len(question.items) < 4
        return Answer.SILENT if small else None

    found = find_culprits(owned(4), World({1: [{1, 2}]}, odd))
    assert found.kept == (0, 2, 3)
    assert [(b.item, b.answer) for b in found.culprits] == [(1, Answer.SILENT)]


def test_a_common_command_without_answer_leaves_nothing_to_ship() -> None:
    silent = World({}, lambda q: Answer.SILENT if q.test == 3 else None)
    assert find_culprits(owned(3, shared=1), silent).kept == ()


def test_an_item_that_is_red_alone_is_blamed_without_company() -> None:
    found = find_culprits(owned(5), World({2: [{2}]}))
    assert found == Found((0, 1, 3, 4), (blame(2, 2),))


# Bounds


def pairings(count: int) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
    """All ways to take (victim, culprit) twice from `count` items."""
    pairs = [*itertools.permutations(range(count), 2)]
    return ((a, b) for a, b in itertools.product(pairs, pairs) if a < b and not {*a} & {*b})


def test_of_eight_items_with_two_guilty_pairs_six_ship_within_eleven_runs() -> None:
    runs = []
    for (v, c), (w, d) in pairings(8):
        world = World({v: [{v, c}], w: [{w, d}]})
        found = find_culprits(owned(8), world)
        assert left_out(found) == {max(v, c), max(w, d)}
        runs.append(world.runs)
    assert max(runs) <= 11  # and one more for the second look at what was red


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [4, 8, 16, 32, 64])
def test_one_guilty_pair_costs_a_logarithm_of_runs(count: int) -> None:
    logarithm = (count - 1).bit_length()
    for victim, culprit in itertools.permutations(range(0, count, 3), 2):
        world = World({victim: [{victim, culprit}]})
        find_culprits(owned(count), world)
        line = count - 2  # each item's own test at its place, the first and last known
        assert world.runs <= 1 + logarithm + 1 + 1 + line


def test_no_innocent_is_left_out_and_no_more_than_one_of_a_guilty_set() -> None:
    for seed in range(1000):
        one_of_each_is_left_out(seed)


def one_of_each_is_left_out(seed: int) -> None:
    chance = random.Random(seed)
    count, shared = chance.randint(2, 14), chance.randint(0, 2)
    pool = chance.sample(range(count), count)
    cores: dict[int, list[set[int]]] = {}
    sets: list[set[int]] = []
    while len(pool) > 2 and chance.random() < 0.6:
        size = chance.choice([2, 2, 2, 3])
        guilty = {pool.pop() for _ in range(min(size, len(pool)))}
        sets.append(guilty)
        for victim in chance.sample(sorted(guilty), chance.randint(1, len(guilty))):
            cores.setdefault(victim, []).append(guilty)
        if shared and chance.random() < 0.3:
            cores.setdefault(count, []).append(guilty)
    found = find_culprits(owned(count, shared), World(cores))
    assert left_out(found) == {max(guilty) for guilty in sets}, seed


def test_as_many_are_kept_as_the_best_of_all_choices_keeps() -> None:
    """Any guilty sets, overlapping and of tests that are nobody's too, against brute force."""
    for seed in range(1000):
        the_best_is_kept(seed)


def the_best_is_kept(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(2, 7)
    owners = owned(count, 1)
    cores: dict[int, list[set[int]]] = {}
    for _ in range(chance.randint(0, 5)):
        test = chance.randint(0, count)
        own = {test} if test < count else set()
        others = chance.sample(range(count), chance.randint(1, min(3, count)))
        guilty = own | {*others}
        if len(guilty) > 1 or test == count:
            cores.setdefault(test, []).append(guilty)
    everything = [core for found in cores.values() for core in found]
    best = max(
        len(kept)
        for size in range(count + 1)
        for kept in map(set, itertools.combinations(range(count), size))
        if not any(core <= kept for core in everything)
    )
    found = find_culprits(owners, World(cores))
    assert len(found.kept) == best, seed
    assert not any(core <= {*found.kept} for core in everything), seed


def test_many_guilty_sets_that_hang_together_are_still_all_broken_up() -> None:
    cores = [frozenset({n, n + 1}) for n in range(40)]
    chosen = minimal_removal(cores)
    assert all(core & chosen for core in cores)
    assert len(chosen) <= 27
