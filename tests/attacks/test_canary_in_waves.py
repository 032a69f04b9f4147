"""The canary in whole waves: honest projects do not mistake it, and cheats do not know it.

`python -m pytest -m sweep tests/attacks/test_canary_in_waves.py` plays every case of them; a sample
is always played. The cheats are in the sweep of `test_false_green` as well.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support import corpus_canary as canary
from tests.support.corpus import Case, play
from tests.support.corpus_python import PYTEST, UNITTEST

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

# One of each kind: an assert that is emptied, a look at git, a selection in a text.
CHEATS = canary.UNITTEST_CANARY[:1] + canary.UNITTEST_CANARY[3:4] + canary.UNITTEST_CANARY[-1:]
# One that is written like its neighbour, one that is not known, one that must not be run.
SAMPLE = ("each test", "a linter of the project", "without a guard")


def check_honest(folder: Path, cases: Sequence[tuple[str, Case]]) -> None:
    """Assert that all ship, each with its word about the canary."""
    played = play(folder, PYTEST, [case for _, case in cases])
    assert [(p.case.name, p.reason) for p in played if not p.shipped] == []
    assert [p.canary for p in played] == [word for word, _ in cases]


def test_a_cheat_does_not_know_the_canary(tmp_path: Path) -> None:
    played = play(tmp_path / "it", UNITTEST, CHEATS)
    assert [(p.case.name, p.reason) for p in played if p.defence != "canary" or not p.fooled] == []


@pytest.mark.more
def test_an_honest_project_does_not_mistake_the_canary(tmp_path: Path) -> None:
    some = [one for one in canary.HONEST_CANARY if any(word in one[1].name for word in SAMPLE)]
    check_honest(tmp_path / "it", some)


@pytest.mark.sweep
def test_honest_projects_do_not_mistake_the_canary(tmp_path: Path) -> None:
    some = [
        (word, case)
        for word, case in canary.HONEST_CANARY
        if canary.NEEDS_RUFF not in case.name or shutil.which("ruff")
    ]
    check_honest(tmp_path / "it", some)
