"""Begun again at a phase: what later phases said of the work before does not hold any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pipelines import (
    GATE,
    GOOD,
    IMPLEMENT,
    PR,
    QUIET,
    REVIEW,
    answers,
    one,
    phases_asked,
    played,
    says,
)
from tests.support.waves import Scene


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("phase", "asked"),
    [
        ("implement", ["implement", "review", "pr-description"]),
        ("review", ["review", "pr-description"]),
        ("pr-description", ["pr-description"]),
    ],
)
def test_an_approval_holds_only_behind_the_phase_that_is_begun_at(
    tmp_path: Path, phase: str, asked: list[str]
) -> None:
    scene = Scene(tmp_path, {"base.txt": "x\n"}, config=QUIET)
    made, told = one(IMPLEMENT, GATE, REVIEW, PR), answers("What it does")
    _, _, first = played(scene, [GOOD, says(), told], made)
    assert first["adversarial_review"] == "approved"
    # It does what it did before: the tree is one that was approved of.
    steps = {"implement": GOOD, "review": says(), "pr-description": told}
    again = [steps[name] for name in asked]
    _, driver, record = played(scene, again, made, wave_id="w2", from_phase=phase)
    assert phases_asked(driver) == asked
    assert (record["verdict"], record["adversarial_review"]) == ("verified", "approved")
