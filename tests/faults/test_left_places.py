"""The places of a wave are removed after its report; a killed run leaves that to the next."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.support.beside import beside
from tests.support.killing import Yard

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads owners in /proc")


def places(folder: Path) -> list[str]:
    """The folders of runs below the folder of the workspaces."""
    return sorted(one.name for one in folder.iterdir() if one.name != "places")


@beside
def test_a_run_killed_in_its_clean_up_has_reported_and_the_next_run_cleans(folder: Path) -> None:
    root, yard = folder / "work", Yard(folder, slugs=("a", "b"))
    yard.track(yard.item("a"))
    done = yard.run("clean_up.begun=kill")
    assert (done.code, done.report["exit_code"]) == (-signal.SIGKILL, 0)
    assert [*yard.commits()] == ["A"]
    assert yard.statuses() == {"A": "in_progress"}
    (left,) = places(root)
    yard.track(yard.item("a", status="done"), yard.item("b"))
    again = yard.run()
    assert left not in places(root)
    assert "ended without saying so" not in again.err
