"""Turns: bounded, and one can wait until nobody wants one."""

from __future__ import annotations

import threading

import pytest

from driver.execution.worker_pool import BackgroundTask, Turns
from tests.support.processes import eventually


def test_no_more_than_width_have_a_turn_at_once() -> None:
    turns, lock, running, most = Turns(2), threading.Lock(), [0], [0]
    both = threading.Barrier(2, timeout=5)

    def work() -> None:
        with turns:
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])
            both.wait()
            with lock:
                running[0] -= 1

    for one in [BackgroundTask(work) for _ in range(6)]:
        one.result()
    assert most == [2]


def test_who_waits_until_none_goes_on_after_those_that_wait_for_a_turn() -> None:
    turns, goes_on, ended = Turns(1), threading.Event(), list[str]()

    def work() -> None:
        with turns:
            assert goes_on.wait(60)
            ended.append("work")

    def wait() -> None:
        turns.wait_until_none()
        ended.append("waited")

    with turns:
        second = BackgroundTask(work)
        assert eventually(lambda: turns._asked == 2)  # or the wait could come before it
        waiting = BackgroundTask(wait)
    assert not waiting.wait(0.02)
    goes_on.set()
    second.result()
    waiting.result()
    assert ended == ["work", "waited"]


def test_a_turn_that_failed_is_given_back() -> None:
    turns = Turns(1)
    with pytest.raises(OSError, match="a disk"), turns:
        raise OSError("a disk")
    turns.wait_until_none()
    with turns:
        pass
