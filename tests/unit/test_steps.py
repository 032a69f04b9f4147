"""The lines that tell of an item's steps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from driver.domain.phase_receipt import PhaseReceipt
from driver.domain.results import Attempt, RunKind, TestRun, Verdict
from driver.run_state.steps import judged

OUTPUT = "a.py ..F\nFAILED a.py::test_x - assert 1 == 2\n=== 1 failed, 2 passed ===\n"
RED = TestRun(RunKind.RED, "pytest", 1, OUTPUT, 0.5, output_file="/run/test-1.out", reason="exit 1")
FAILED = Attempt(1, "build", Verdict.FAILED, "test failed with exit 1", test=RED)


@pytest.mark.parametrize(
    ("attempt", "line"),
    [
        (FAILED, "failed: test failed with exit 1: FAILED a.py::test_x - assert 1 == 2;"
         " its output: /run/test-1.out"),
        (replace(FAILED, test=replace(RED, output="", output_file=None)),
         "failed: test failed with exit 1"),
        (replace(FAILED, verdict=Verdict.REFUSED), "refused: test failed with exit 1"),
        (replace(FAILED, test=None), "failed: test failed with exit 1"),
    ],
)  # fmt: skip
def test_a_failed_item_shows_its_first_failure_and_where_the_output_is(
    attempt: Attempt, line: str
) -> None:
    receipt = PhaseReceipt("implement", "agent", "agent", "completed")
    assert judged(attempt, receipt, final=True).message == line
