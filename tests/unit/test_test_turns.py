"""Turns of test runs: who waits for whom, who ran beside whom, and what is kept."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from driver.run_state.test_turns import LEARNED_FILE, Alone, TestTurns, Turn
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually

A, B = (".", "pytest a"), (".", "pytest b")
PATIENCE_S = 60.0


def never() -> bool:
    return False


@contextmanager
def kept_in(folder: Path) -> Iterator[TestTurns]:
    turns = TestTurns(folder, never, slots=9)
    try:
        yield turns
    finally:
        turns.close()


def run(
    turns: TestTurns, test: tuple[str, str], alone: Alone = Alone.NO
) -> AbstractContextManager[Turn]:
    return turns.turn(test, alone)


def waits(
    turns: TestTurns,
    test: tuple[str, str],
    alone: Alone,
    release: ExitStack,
    expected: bool = True,
) -> bool:
    """True if a further run waits until `release` ends the runs at work. One that is expected not
    to wait gets the time that it needs to begin."""
    began = threading.Event()

    def begin() -> None:
        with run(turns, test, alone):
            began.set()

    thread = threading.Thread(target=begin)
    thread.start()
    waited = not began.wait(0.3 if expected else PATIENCE_S)
    release.close()
    thread.join(PATIENCE_S)
    assert began.is_set()
    return waited


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ((A, Alone.NO), (A, Alone.NO), False),
        ((A, Alone.COMMAND), (B, Alone.COMMAND), False),
        ((A, Alone.COMMAND), (A, Alone.NO), True),
        ((A, Alone.NO), (A, Alone.COMMAND), True),
        ((A, Alone.ALL), (B, Alone.NO), True),
        ((A, Alone.NO), (B, Alone.ALL), True),
    ],
)
def test_a_run_waits_for_those_that_it_may_not_be_beside(
    first: tuple[tuple[str, str], Alone], second: tuple[tuple[str, str], Alone], expected: bool
) -> None:
    turns, at_work = TestTurns(None, never, slots=9), ExitStack()
    at_work.enter_context(run(turns, *first))
    assert waits(turns, *second, at_work, expected) is expected


@pytest.mark.parametrize(
    ("slots", "everything", "asked", "needed", "learned", "expected"),
    [
        (2, False, Alone.NO, (), Alone.NO, True),
        (1, False, Alone.NO, (), Alone.NO, False),
        (2, True, Alone.NO, (), Alone.NO, False),
        (2, False, Alone.ALL, (), Alone.NO, False),
        (2, False, Alone.NO, ("db",), Alone.NO, False),
        (2, False, Alone.NO, (), Alone.COMMAND, False),
    ],
)
def test_two_runs_of_a_test_may_share_the_time_only_if_none_waits_for_the_other(
    slots: int,
    everything: bool,
    asked: Alone,
    needed: tuple[str, ...],
    learned: Alone,
    expected: bool,
) -> None:
    needs = {A: frozenset(needed)} if needed else {}
    turns = TestTurns(None, never, slots=slots, everything=everything, needs=needs)
    if learned:
        turns.learn(A, learned)
    assert turns.may_share(A, asked) is expected


def test_every_run_is_alone_if_the_project_says_so() -> None:
    turns, at_work = TestTurns(None, never, slots=9, everything=True), ExitStack()
    at_work.enter_context(run(turns, A))
    assert waits(turns, B, Alone.NO, at_work)


def test_runs_know_what_took_place_meanwhile() -> None:
    turns = TestTurns(None, never, slots=9)
    with run(turns, A) as first, run(turns, B) as second, run(turns, A) as third:
        pass
    assert (first.beside, second.beside, third.beside) == ({A, B}, {A}, {A, B})
    with run(turns, A) as later:
        pass
    assert not later.beside


def test_runs_that_wait_for_a_slot_disturb_nobody() -> None:
    turns, at_work = TestTurns(None, never, slots=1), ExitStack()
    first = at_work.enter_context(run(turns, A))
    assert waits(turns, A, Alone.NO, at_work)
    assert not first.beside


def test_what_was_learned_is_kept_for_later_waves_and_told_once(tmp_path: Path) -> None:
    with kept_in(tmp_path) as turns:
        assert turns.learn(A, Alone.COMMAND)
        assert not turns.learn(A, Alone.COMMAND)
        assert turns.learn(B, Alone.ALL)
    with kept_in(tmp_path) as later:
        assert (later.known(A), later.known(B)) == (Alone.COMMAND, Alone.ALL)
        assert not later.learn(B, Alone.COMMAND)
        with later.turn(A, Alone.NO) as turn:
            assert turn.alone is Alone.COMMAND


def test_what_was_learned_is_bounded(tmp_path: Path) -> None:
    with kept_in(tmp_path) as turns:
        for number in range(250):
            turns.learn((".", f"pytest {number}"), Alone.COMMAND)
    kept = json.loads((tmp_path / LEARNED_FILE).read_text())["tests"]
    assert len(kept) == 200
    assert kept[-1] == {"workDir": ".", "command": "pytest 249", "alone": "command"}


@pytest.mark.parametrize("text", ["", "[]", '{"tests": [{"command": 1}]}', '{"tests": 3}'])
def test_a_broken_file_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / LEARNED_FILE).write_text(text)
    with kept_in(tmp_path) as turns:
        assert turns.known(A) is Alone.NO


def test_nobody_waits_after_a_stop() -> None:
    turns = TestTurns(None, lambda: True, slots=9)
    with run(turns, A, Alone.ALL), run(turns, A, Alone.ALL):
        pass


OTHER = """
import sys
from pathlib import Path
from driver.run_state.test_turns import Alone, TestTurns
turns = TestTurns(Path(sys.argv[1]), lambda: False, slots=9)
with turns.turn((".", "pytest a"), Alone[sys.argv[2]]):
    print("begun", flush=True)
    sys.stdin.read()
"""


@contextmanager
def other_process(folder: Path, alone: Alone) -> Iterator[subprocess.Popen[str]]:
    argv = [*PYTHON, "-c", OTHER, str(folder), alone.name]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as child:  # type: ignore[call-overload]
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        yield child


@pytest.mark.skipif(sys.platform == "win32", reason="no locks between processes")
@pytest.mark.parametrize(("theirs", "mine"), [(Alone.ALL, Alone.NO), (Alone.NO, Alone.COMMAND)])
def test_two_processes_with_one_state_folder_wait_for_each_other(
    tmp_path: Path, theirs: Alone, mine: Alone
) -> None:
    at_work = ExitStack()
    with kept_in(tmp_path) as turns:
        child = at_work.enter_context(other_process(tmp_path, theirs))
        assert child.stdin is not None
        at_work.callback(child.stdin.close)
        assert waits(turns, A, mine, at_work)


@pytest.mark.skipif(sys.platform == "win32", reason="no locks between processes")
def test_a_run_of_another_process_is_noticed(tmp_path: Path) -> None:
    with kept_in(tmp_path) as turns, other_process(tmp_path, Alone.NO) as child:
        assert child.stdin is not None
        with run(turns, B) as b, run(turns, A) as a:
            child.stdin.close()
            assert eventually(lambda: child.poll() is not None, PATIENCE_S)
    assert (A in a.beside, B in a.beside) == (True, True)
    assert b.beside == {A}
