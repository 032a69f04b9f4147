"""The verdict of an item after an error that no check of the work has found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from driver.agents.attempt import of_trouble
from driver.domain.results import Verdict
from driver.git.command import GitError
from driver.limits.admission import GateClosedError
from driver.run_state.context import Wave
from driver.workspace.root import WorkspaceError
from state_store.documents.errors import TidegateError

GONE = GitError(["git", "ls-files"], 128, b"fatal: not a git repository: /w/watch")


def wave(cause: GateClosedError | None) -> Wave:
    return cast("Wave", SimpleNamespace(gates=SimpleNamespace(stop=SimpleNamespace(cause=cause))))


@pytest.mark.parametrize("trouble", [GONE, WorkspaceError("gone"), FileNotFoundError(2, "gone")])
def test_an_error_after_a_stop_is_halted_with_the_cause_of_the_stop(
    trouble: TidegateError | OSError,
) -> None:
    found = of_trouble(trouble, wave(GateClosedError("terminated", "terminated: SIGTERM")))
    assert (found.verdict, found.reason) == (Verdict.HALTED, "terminated: SIGTERM")
    assert of_trouble(trouble, wave(None)).verdict is Verdict.UNDECIDED
