"""Named resources: runs that need the same one take place one after the other, in all processes
with one state folder."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from driver.domain.item_fields import InvalidValueError, resources_of
from driver.run_state.test_turns import Alone, TestTurns
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually
from tools.settings.load import load

PATIENCE_S = 60.0
DB, PORT, BOTH, NOTHING = ("db",), ("port",), ("port", "db"), ()
posix = pytest.mark.skipif(sys.platform == "win32", reason="no locks between processes")


def name(needs: tuple[str, ...], number: int = 0) -> tuple[str, str]:
    return ".", f"test {number} of {' '.join(needs)}"


def never() -> bool:
    return False


NEEDS = {name(needs, n): frozenset(needs) for needs in (DB, PORT, BOTH) for n in range(20)}


@contextmanager
def turns_in(folder: Path | None, stopped: Callable[[], bool] = never) -> Iterator[TestTurns]:
    turns = TestTurns(folder, stopped, slots=9, needs=NEEDS)
    try:
        yield turns
    finally:
        turns.close()


@pytest.mark.parametrize(
    ("first", "second", "waits"),
    [(DB, DB, True), (DB, BOTH, True), (BOTH, PORT, True), (DB, PORT, False), (DB, (), False)],
)
def test_a_run_waits_for_another_with_a_resource_that_it_needs(
    first: tuple[str, ...], second: tuple[str, ...], waits: bool
) -> None:
    began = threading.Event()

    def begin() -> None:
        with turns.turn(name(second, 1), Alone.NO):
            began.set()

    with turns_in(None) as turns:
        with turns.turn(name(first), Alone.NO) as turn:
            thread = threading.Thread(target=begin)
            thread.start()
            assert began.wait(0.3 if waits else PATIENCE_S) is not waits
        thread.join(PATIENCE_S)
    assert began.is_set()
    assert turn.needs == set(first)


OTHER = """
import sys, threading
from pathlib import Path
from driver.run_state.test_turns import Alone, TestTurns
folder, count = Path(sys.argv[1]), int(sys.argv[2])
needs = {(".", str(n)): frozenset(words.split(",")) for n, words in enumerate(sys.argv[3:])}
turns = TestTurns(folder / "state", lambda: False, slots=9, needs=needs)
def one(test):
    for number in range(count):
        with turns.turn(test, Alone.NO):
            for need in needs[test]:
                (folder / need).mkdir()
            if count == 1:
                print("begun", flush=True)
                sys.stdin.read()
            for need in needs[test]:
                (folder / need).rmdir()
threads = [threading.Thread(target=one, args=[test]) for test in needs]
[one.start() for one in threads]
[one.join() for one in threads]
"""


def process(folder: Path, count: int, *needs: tuple[str, ...]) -> subprocess.Popen[str]:
    """A process whose tests run `count` times each, and have a folder for each of their resources
    meanwhile, which nobody else may have. With a count of 1 they run until the process is told."""
    (folder / "state").mkdir(exist_ok=True)
    argv = [*PYTHON, "-c", OTHER, str(folder), str(count), *map(",".join, needs)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(argv, text=True, **pipes)  # type: ignore[call-overload]


@posix
def test_a_killed_process_gives_its_resources_back(tmp_path: Path) -> None:
    child = process(tmp_path, 1, BOTH)
    began = threading.Event()

    def begin() -> None:
        with turns.turn(name(DB), Alone.NO):
            began.set()

    with child, turns_in(tmp_path / "state") as turns:
        assert child.stdout is not None
        assert child.stdout.readline() == "begun\n"
        with turns.turn(name(NOTHING), Alone.NO):
            pass
        thread = threading.Thread(target=begin)
        thread.start()
        assert not began.wait(0.3)
        child.kill()
        thread.join(PATIENCE_S)
    assert began.is_set()


@posix
def test_no_two_processes_have_a_resource_and_none_waits_for_ever(tmp_path: Path) -> None:
    orders = ([DB, PORT, BOTH], [BOTH, PORT, DB], [BOTH, BOTH])
    children = [process(tmp_path, 6, *tests) for tests in orders]
    assert eventually(lambda: all(c.poll() is not None for c in children), 60)
    assert [child.communicate()[1] for child in children] == ["", "", ""]


def waits_for_a_resource(pid: int) -> bool:
    lines = map(str.split, Path("/proc/locks").read_text().splitlines())
    return any(line[4] == str(pid) and int(line[6]) > 2**34 for line in lines if len(line) == 8)


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="no list of locks")
def test_a_process_that_has_a_resource_often_lets_another_one_have_it(tmp_path: Path) -> None:
    """The holder's next run asks at once, the other process only from time to time."""
    again = threading.Event()
    (tmp_path / "state").mkdir()

    def once_more() -> None:
        with turns.turn(name(DB, 1), Alone.NO):
            again.set()

    with turns_in(tmp_path / "state") as turns:
        thread = threading.Thread(target=once_more)
        with turns.turn(name(DB), Alone.NO):
            child = process(tmp_path, 1, DB)
            thread.start()
            assert eventually(lambda: waits_for_a_resource(child.pid), PATIENCE_S)
        with child:
            assert child.stdout is not None
            assert child.stdin is not None
            assert child.stdout.readline() == "begun\n"
            assert not again.is_set()
            child.stdin.close()
        thread.join(PATIENCE_S)
    assert again.is_set()


@posix
def test_a_run_that_is_stopped_while_it_waits_keeps_nobody_waiting(tmp_path: Path) -> None:
    over = threading.Event()
    (tmp_path / "state").mkdir()

    def begin() -> None:
        with turns.turn(name(DB), Alone.NO):
            pass

    holder = process(tmp_path, 1, DB)
    with holder, turns_in(tmp_path / "state", over.is_set) as turns:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "begun\n"
        thread = threading.Thread(target=begin)
        thread.start()
        over.set()
        thread.join(PATIENCE_S)
        holder.stdin.close()
        assert holder.wait(PATIENCE_S) == 0
        with process(tmp_path, 1, DB) as next_one:
            assert next_one.communicate(timeout=PATIENCE_S) == ("begun\n", "")


@pytest.mark.parametrize("value", ["db", ["db", ""], ["-db"], ["a b"], [1], [["db"]], {"db": 1}, 3])
def test_needs_are_a_list_of_names(value: object) -> None:
    with pytest.raises(InvalidValueError, match="must be a list of names"):
        resources_of(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ('["db", "port"]', ("db", "port")), ("[]", ()), ("false", False)],
)
def test_the_setting_is_a_switch_or_names(tmp_path: Path, text: str, value: object) -> None:
    (tmp_path / "tidegate.toml").write_text(f"[verify]\nexclusive = {text}\n")
    assert load(project=tmp_path, environ={}).verify.exclusive == value
    assert load(environ={"TIDEGATE_VERIFY_EXCLUSIVE": "yes"}).verify.exclusive is True
