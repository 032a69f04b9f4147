"""What people read of an item that was left out: who breaks what, never the wrong way round."""

from __future__ import annotations

import pytest

from driver.domain.results import RunKind, TestRun
from driver.merge_queue.batch_result import reason
from driver.merge_queue.culprits import Answer, Culprit

NAMES = ("a", "b", "c")
RED, FLAKY, SILENT = Answer.RED, Answer.FLAKY, Answer.SILENT


@pytest.mark.parametrize(
    ("item", "items", "owners", "answer", "said"),
    [
        (1, {0, 1}, {0}, RED, "green alone, but together with a: b breaks a's test `t`: why"),
        (1, {0, 1}, {1}, RED, "green alone, but together with a: a breaks b's test `t`: why"),
        (1, {0, 1}, {0, 1}, RED, "green alone, but together with a: b breaks a's test `t`: why"),
        (2, {0, 1, 2}, {0}, RED, "green alone, but together with a, b: c breaks a's test `t`: why"),
        (1, {0, 1}, {2}, RED, "green alone, but together with a: b breaks the integration"),
        (1, {1}, set(), RED, "b breaks the integration command `t`: why"),
        (1, set(), set(), RED, "red without any item, so it proves nothing: `t`: why"),
        (1, {1}, {1}, RED, "green on its base, but not on the target branch: `t`: why"),
        (1, {0, 1}, {1}, SILENT, "green alone, but together with a: `t`: why"),
        (1, {0, 1}, {1}, FLAKY, "green alone, but together with a: different answers for one tree"),
    ],
)
def test_the_sentence_names_who_breaks_whose_test(
    item: int, items: set[int], owners: set[int], answer: Answer, said: str
) -> None:
    blame = Culprit(item, 0, answer, frozenset(items))
    run = TestRun(RunKind.RED, "t", 1, "", 0.1, "tree", reason="why")
    assert reason(blame, run, frozenset(owners), NAMES).startswith(said)
