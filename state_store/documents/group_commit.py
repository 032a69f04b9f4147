"""Shares commits between threads: one thread writes for all that wait, then names a successor.

Starts no thread. A single writer never waits. The caller supplies jobs and transactions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

from state_store.documents.errors import CannotRunError, TidegateError

Session = TypeVar("Session")
Job = Callable[[Session], int]


class _Request(Generic[Session]):
    """The job of a waiting thread, and its result."""

    __slots__ = ("_called", "error", "job", "leads", "result")

    def __init__(self, job: Job[Session]) -> None:
        self.job = job
        self.result: int | None = None
        self.error: BaseException | None = None
        self.leads = False
        self._called = threading.Lock()
        self._called.acquire()

    def wait(self) -> None:
        self._called.acquire()

    def call(self) -> None:
        self._called.release()

    def run(self, session: Session) -> None:
        try:
            self.result = self.job(session)
        except TidegateError as refused:
            self.error = refused

    def outcome(self) -> int:
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result


class GroupCommit(Generic[Session]):
    """Runs jobs in shared transactions. `transaction()` returns a session and commits at its end.

    A job returns a number, or raises a TidegateError before its first write, which only its caller
    gets. If the transaction fails, all its callers get the error.
    """

    def __init__(self, transaction: Callable[[], AbstractContextManager[Session]]) -> None:
        self._transaction = transaction
        self._guard = threading.Lock()
        self._waiting: list[_Request[Session]] = []
        self._led = False

    def submit(self, job: Job[Session], alone: Callable[[], int | None] | None = None) -> int:
        """Run `job` durably and return its number. Raises the error of the job or the commit.
        `alone` does the same in a quicker way, for a job that shares its commit with no other. It
        returns None, without any change, if it cannot."""
        with self._guard:
            leads, self._led = not self._led, True
            if not leads:
                mine = _Request(job)
                self._waiting.append(mine)
        if leads:
            return self._lead(job, alone)
        try:
            mine.wait()
        except BaseException:  # a signal; no other thread may wait for this thread
            with self._guard:
                if mine in self._waiting:
                    self._waiting.remove(mine)
            if mine.leads:
                self._hand_over()
            raise
        return self._lead(job) if mine.leads else mine.outcome()

    def _lead(self, mine: Job[Session], alone: Callable[[], int | None] | None = None) -> int:
        """Run this thread's job and the jobs of all waiting threads in one transaction."""
        batch: Sequence[_Request[Session]] = ()
        refused: TidegateError | None = None
        is_alone = alone is not None and not self._waiting
        try:
            if is_alone and alone is not None and (quick := alone()) is not None:
                return quick
            is_alone = False
            with self._transaction() as session:
                batch = self._take() if self._waiting else ()
                try:
                    result = mine(session)
                except TidegateError as error:  # by contract before its first write
                    refused = error
                for request in batch:
                    request.run(session)
        except BaseException as error:
            if is_alone:  # jobs that came meanwhile had no part in it
                raise
            batch = batch or self._take()
            theirs = error
            if not isinstance(error, TidegateError):
                theirs = CannotRunError(f"the write was interrupted: {error!r}; run again")
            for request in batch:
                request.error = theirs
            raise
        finally:
            self._hand_over()
            for request in batch:
                request.call()
        if refused is not None:
            raise refused
        return result

    def _take(self) -> Sequence[_Request[Session]]:
        with self._guard:
            batch, self._waiting = self._waiting, []
        return batch

    def _hand_over(self) -> None:
        with self._guard:
            self._led = bool(self._waiting)
            if self._led:
                next_one = self._waiting.pop(0)
                next_one.leads = True
                next_one.call()
