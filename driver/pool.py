"""A bounded pool of threads that gives results back in the order of the jobs.

The only place that starts threads. They are daemons: after a stop the process may leave although
a foreign backend does not come back.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")

LEAVE_AFTER_S = 1.2
_TICK_S = 0.1


def run_all(
    jobs: Sequence[Job],
    work: Callable[[Job], Result],
    *,
    width: int,
    is_stopped: Callable[[], bool] = lambda: False,
    abandoned: Callable[[Job], Result] | None = None,
) -> list[Result]:
    """Run `work` on every job, at most `width` at once; results in the order of `jobs`.

    An exception of one job is raised here after the others have ended. Once `is_stopped` says so,
    a job that does not end within `LEAVE_AFTER_S` seconds gets `abandoned(job)` as its result.
    """
    crew = _Crew(jobs, work)
    crew.start(min(width, len(jobs)))
    crew.wait(is_stopped if abandoned else lambda: False)
    return crew.results(abandoned)


class _Crew(Generic[Job, Result]):
    def __init__(self, jobs: Sequence[Job], work: Callable[[Job], Result]) -> None:
        self._jobs = jobs
        self._work = work
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._done: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._finished = threading.Semaphore(0)

    def start(self, width: int) -> None:
        for number in range(len(self._jobs)):
            self._waiting.put(number)
        for _ in range(width):
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                number = self._waiting.get_nowait()
            except queue.Empty:
                return
            try:
                self._done[number] = self._work(self._jobs[number])
            except BaseException as error:  # noqa: BLE001 - handed to the caller's thread, raised there
                self._errors[number] = error
            self._finished.release()

    def wait(self, is_stopped: Callable[[], bool]) -> None:
        # A timed wait lets the main thread run its signal handlers on every platform.
        left = len(self._jobs)
        deadline = float("inf")
        while left and time.monotonic() < deadline:
            if self._finished.acquire(timeout=_TICK_S):
                left -= 1
            if deadline == float("inf") and is_stopped():
                deadline = time.monotonic() + LEAVE_AFTER_S

    def results(self, abandoned: Callable[[Job], Result] | None) -> list[Result]:
        for error in dict(self._errors).values():
            raise error
        done = dict(self._done)
        return [
            done[number] if number in done or abandoned is None else abandoned(job)
            for number, job in enumerate(self._jobs)
        ]
