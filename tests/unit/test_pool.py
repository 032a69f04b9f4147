"""The pool: bounded, ordered, and able to leave."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from driver.execution.worker_pool import Afterwards, BackgroundTask, ShutdownPolicy, run_all


def test_results_come_in_the_order_of_the_jobs() -> None:
    gates = [threading.Event() for _ in range(4)]

    def work(number: int) -> int:
        if number < 3:
            assert gates[number + 1].wait(60)
        gates[number].set()
        return number * 10

    assert run_all(range(4), work, width=4) == [0, 10, 20, 30]


def test_no_more_than_width_jobs_run_at_once() -> None:
    lock, running, most = threading.Lock(), [0], [0]
    both = threading.Barrier(2, timeout=5)

    def work(_number: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        both.wait()
        with lock:
            running[0] -= 1

    run_all(range(8), work, width=2)
    assert most[0] == 2


def test_an_error_of_one_job_is_raised_after_the_others_ended() -> None:
    done: list[int] = []

    def work(number: int) -> None:
        if number == 0:
            raise LookupError("first")
        done.append(number)

    with pytest.raises(LookupError, match="first"):
        run_all(range(4), work, width=1)
    assert done == [1, 2, 3]


def test_after_a_stop_the_pool_insists_and_then_leaves_a_job_that_does_not_come_back() -> None:
    insisted, release = threading.Event(), threading.Event()

    def work(number: int) -> str:
        if number == 1:
            assert insisted.wait(30)
        if number == 2:
            release.wait(30)
        return "done"

    shutdown: ShutdownPolicy[int, str] = ShutdownPolicy(
        lambda: True, insisted.set, lambda number: f"left {number}", lambda: 0.4
    )
    results = run_all(range(3), work, width=3, shutdown=shutdown)
    release.set()
    assert results == ["done", "done", "left 2"]


def test_no_jobs_need_no_threads() -> None:
    assert run_all([], lambda job: job, width=8) == []


def test_work_beside_gives_its_result_when_it_is_asked_for() -> None:
    go = threading.Event()
    beside = BackgroundTask(lambda: go.wait(60) and "done")
    assert not beside.wait(0)
    go.set()
    assert beside.result() == "done"
    assert beside.wait(0)


def test_what_goes_wrong_beside_is_raised_where_the_result_is_asked_for() -> None:
    def fails() -> None:
        raise ValueError("no")

    beside = BackgroundTask(fails)
    with pytest.raises(ValueError, match="no"):
        beside.result()


def test_work_for_afterwards_is_done_in_its_order_and_awaited_at_the_end() -> None:
    later, done, gate = Afterwards(), list[int](), threading.Event()
    later.do(gate.wait)
    for number in range(3):
        later.do(partial(done.append, number))
    assert not done
    gate.set()
    later.close()
    assert done == [0, 1, 2]


def test_work_for_afterwards_that_fails_stops_no_other() -> None:
    later, done = Afterwards(), list[int]()

    def fail() -> None:
        raise OSError("busy")

    later.do(fail)
    later.do(lambda: done.append(1))
    later.close()
    later.do(lambda: done.append(2))  # after the end nobody else would do it
    later.do(fail)
    assert done == [1, 2]


def test_work_for_afterwards_does_not_pile_up() -> None:
    later, done, gate = Afterwards(), list[int](), threading.Event()
    later.do(gate.wait)
    for number in range(200):
        later.do(partial(done.append, number))
    assert 100 < len(done) < 200
    gate.set()
    later.close()
    assert sorted(done) == [*range(200)]


def test_nothing_given_is_nothing_to_wait_for() -> None:
    Afterwards().close()
