"""How many tests have to run on the tree of several items."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.domain.results import RunKind, TestRun
from driver.merge_queue.batch_result import Expected, assess_counts
from driver.runners.result import MISSING, Counts, Doubt

GREEN = TestRun(RunKind.GREEN, "pytest", 0, "", 0.1, "tree")
PromptFacts = Counts | Doubt | None


def ran(number: int, skipped: int = 0, failed: int = 0) -> Counts:
    return Counts("pytest", number, failed, skipped)


@pytest.mark.parametrize(
    ("now", "proofs", "fewer_ok", "kind"),
    [
        (ran(5), [ran(3), ran(4)], 0, RunKind.GREEN),
        (ran(4, 9), [ran(3), ran(4)], 0, RunKind.GREEN),
        (ran(3), [ran(3), ran(4)], 0, RunKind.RED),
        (ran(3), [ran(3), ran(4)], 1, RunKind.GREEN),
        (ran(0, 3), [], 0, RunKind.RED),
        (ran(3, 0, 1), [], 0, RunKind.RED),
        (ran(3), [None], 0, RunKind.GREEN),
        (None, [ran(3)], 0, RunKind.RED),
        (None, [], 0, RunKind.GREEN),
        (Doubt("pytest", MISSING), [ran(3)], 0, RunKind.RED),
        (Doubt("pytest", MISSING), [Doubt("pytest", MISSING)], 0, RunKind.GREEN),
        (Doubt("pytest", MISSING), [], 0, RunKind.GREEN),
        (Counts("unittest", 9, 0, 0), [ran(3)], 0, RunKind.RED),
    ],
)
def test_as_many_tests_run_together_as_in_each_items_own_proof(
    now: PromptFacts, proofs: list[PromptFacts], fewer_ok: int, kind: RunKind
) -> None:
    expected = Expected(tuple(replace(GREEN, counts=one) for one in proofs), fewer_ok)
    found = assess_counts(replace(GREEN, counts=now), expected)
    assert found.kind is kind
    assert bool(found.reason) == (kind is RunKind.RED)


def test_a_red_run_stays_as_it_is() -> None:
    red = replace(GREEN, kind=RunKind.RED, reason="test failed with exit 1", counts=ran(1))
    assert assess_counts(red, Expected((replace(GREEN, counts=ran(3)),))) == red
