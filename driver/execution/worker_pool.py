"""Thread pools. Results come in the order of the jobs.

Only this module starts threads. They are daemons, so that the process can end after a cancellation
although a foreign backend does not return.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Generic, TypeVar

from state_store.values.lazy_dataclass import dataclass

Job = TypeVar("Job")
Result = TypeVar("Result")

_TICK_S = 0.1
_MOST_WAITING = 50  # folders of commands, which may be large, must not pile up


@dataclass(frozen=True, slots=True)
class ShutdownPolicy(Generic[Job, Result]):
    """The way to end running jobs. Once `is_stopped` is true, `force` is called after half of
    `grace_s()` seconds. After `grace_s()` seconds an unfinished job gets the result
    `abandoned(job)`."""

    is_stopped: Callable[[], bool]
    force: Callable[[], None]
    abandoned: Callable[[Job], Result]
    grace_s: Callable[[], float]  # its result may shrink during the wait


def run_all(
    jobs: Sequence[Job],
    work: Callable[[Job], Result],
    *,
    width: int,
    shutdown: ShutdownPolicy[Job, Result] | None = None,
) -> list[Result]:
    """Run `work` on every job, at most `width` at once. Returns results in the order of `jobs`.

    Raises the exception of a job after all other jobs have ended.
    """
    crew = _Crew(jobs, work)
    crew.start(min(width, len(jobs)))
    crew.wait(shutdown)
    return crew.results(shutdown)


@contextmanager
def repeating(interval_s: float, work: Callable[[], None]) -> Iterator[None]:
    """Call `work` every `interval_s` seconds in the background until the block ends."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(interval_s):
            work()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Afterwards:
    """Work in the background, done by one thread in the order in which it was given. Its OSErrors
    are ignored. The caller does it at once if much is waiting, and after `close`, which waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._given: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def do(self, work: Callable[[], object]) -> None:
        """Do the work soon, or now."""
        with self._lock:
            if not self._closed and self._given.qsize() < _MOST_WAITING:
                self._given.put(work)
                if self._thread is None:
                    self._thread = threading.Thread(target=self._run, daemon=True)
                    self._thread.start()
                return
        _quietly(work)

    def close(self) -> None:
        """Wait until all work is done."""
        with self._lock:
            self._closed = True
            self._given.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (work := self._given.get()) is not None:
            _quietly(work)


def _quietly(work: Callable[[], object]) -> None:
    with suppress(OSError):
        work()


class Turns:
    """A semaphore for `with`. At most `width` threads hold it at once."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._changed = threading.Condition()
        self._asked = self._busy = 0

    def __enter__(self) -> None:
        with self._changed:
            self._asked += 1
            self._changed.wait_for(lambda: self._busy < self._width)
            self._busy += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._asked -= 1
            self._busy -= 1
            self._changed.notify_all()

    def wait_until_none(self) -> None:
        """Wait until no thread holds or wants the semaphore."""
        with self._changed:
            self._changed.wait_for(lambda: not self._asked)


class BackgroundTask(Generic[Result]):
    """Work in a background thread."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._done = threading.Event()
        self._result: Result
        self._error: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - `result` raises it
            self._error = error
        self._done.set()

    def wait(self, timeout_s: float) -> bool:
        """Wait for at most `timeout_s` seconds; True if the work has ended."""
        return self._done.wait(timeout_s)

    def result(self) -> Result:
        """Wait for the end of the work and return its result, or raise its exception."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._result


class _Crew(Generic[Job, Result]):
    def __init__(self, jobs: Sequence[Job], work: Callable[[Job], Result]) -> None:
        self._jobs = jobs
        self._work = work
        self._waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._done: dict[int, Result] = {}
        self._errors: dict[int, BaseException] = {}
        self._finished = threading.Semaphore(0)
        self._left = len(jobs)

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
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                self._errors[number] = error
            self._finished.release()

    def wait(self, shutdown: ShutdownPolicy[Job, Result] | None) -> None:
        self._wait_until(lambda: shutdown is not None and shutdown.is_stopped())
        if shutdown is not None and self._left:
            stopped = time.monotonic()
            self._wait_until(lambda: time.monotonic() > stopped + shutdown.grace_s() / 2)
            shutdown.force()
            self._wait_until(lambda: time.monotonic() > stopped + shutdown.grace_s())

    def _wait_until(self, is_over: Callable[[], bool]) -> None:
        # With a timed wait the main thread can run its signal handlers on every platform.
        while self._left and not is_over():
            if self._finished.acquire(timeout=_TICK_S):
                self._left -= 1

    def results(self, shutdown: ShutdownPolicy[Job, Result] | None) -> list[Result]:
        for error in dict(self._errors).values():
            raise error
        done = dict(self._done)
        return [
            done[number] if number in done or shutdown is None else shutdown.abandoned(job)
            for number, job in enumerate(self._jobs)
        ]
