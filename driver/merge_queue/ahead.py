"""Tests batches before all items have their verdicts, while a slot for tests is idle.

Only inside of walls that no agent can reach out of: the runs of a batch count more than a proof
because no agent could disturb them. A run counts for exactly its tree and its test, so a batch that
turns out otherwise just does not find it.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator

from driver.domain.results import ItemOutcome, TestRun, Verdict
from driver.execution.worker_pool import BackgroundTask
from driver.merge_queue.batch import Entry, Integration, Key, Trial, run_together
from driver.policy.judgement import NO_ANSWER
from driver.run_state.context import ItemRun, Wave
from driver.run_state.test_turns import Alone
from driver.workspace.base_branch import Head
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import TidegateError
from state_store.values.lazy_dataclass import dataclass, field, replace

_TICK_S = 0.1
_NOT_WANTED = "the batch does not need it any more"


@dataclass(eq=False, slots=True)
class _Job:
    """A run of a key; `run` is None if it gave no answer. One that is not wanted any more ends."""

    context: CloneContext
    key: Key
    is_begun: bool = False
    is_wanted: bool = True
    run: TestRun | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def watch(self, root: int, printed: int) -> str:
        """The reason to end the run; "" for none."""
        del root, printed
        return "" if self.is_wanted else _NOT_WANTED


class WaveAhead:
    """The runs ahead of the batches of one wave, at most `width` at once. Safe to use from many
    threads."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._lock, self._planning = threading.Lock(), threading.Lock()
        self._offered: dict[ItemRun, Entry] = {}
        self._settled: dict[ItemRun, Entry | None] = {}
        self._jobs: dict[tuple[str, Key], _Job] = {}
        self._queue: list[_Job] = []
        self._workers: list[BackgroundTask[None]] = []
        self._at_work = 0
        self._closed = False

    def retract(self, item: ItemRun) -> None:
        """An agent goes on with the item's work."""
        with self._lock:
            self._offered.pop(item, None)

    def offer(self, item: ItemRun) -> None:
        """The item has work that only its tests may still refuse."""
        work = item.attempts[-1]
        outcome = replace(item.outcome(Verdict.VERIFIED, ""), tree=work.tree, changes=work.changes)
        with self._lock:
            self._offered[item] = item, outcome
        self._plan(item)

    def settle(self, item: ItemRun, outcome: ItemOutcome) -> None:
        """The item has its verdict."""
        ships = outcome.verdict is Verdict.VERIFIED and outcome.publish
        with self._lock:
            self._offered.pop(item, None)
            is_new = outcome.shipped_as is None
            self._settled[item] = (item, outcome) if ships and is_new else None
        self._plan(item)

    def take(self, context: CloneContext, key: Key) -> TestRun | None:
        """The run of this key; waits for it if it has begun. Without one the caller makes it."""
        with self._lock:
            job = self._jobs.get((str(context.repository.top), key))
            if job is None or not job.is_begun:
                self._queue = [one for one in self._queue if one is not job]
                return None
        job.over.wait()
        return job.run

    def stop(self) -> None:
        """Begin no more runs."""
        with self._lock:
            self._closed = True
            self._queue.clear()

    def close(self) -> None:
        """Begin no more runs, end those at work, and wait for that unless the wave was stopped."""
        self.stop()
        for job in self._jobs.values():
            job.is_wanted = False
        for worker in self._workers:
            while not worker.wait(_TICK_S) and not self._is_stopped():
                pass

    def _is_stopped(self) -> bool:
        """True once the user has stopped the wave."""
        return any(item.wave.gates.stop.is_set for item in [*self._settled, *self._offered])

    def _plan(self, item: ItemRun) -> None:
        """Queue what the batch of the item's repository will ask for, as far as it is known."""
        context, wave = item.repository, item.wave
        if context is None or not _may_begin(context, wave):
            return
        top = str(context.repository.top)
        with self._planning:  # the newest plan counts
            with self._lock:
                entries, is_whole = self._entries(wave, item.planned.home.key)
            try:
                keys = [*dict.fromkeys(_keys(entries, context, wave, is_whole=is_whole))]
            except (TidegateError, OSError):
                return  # the batch itself will say what is wrong
            with self._lock:
                others = [job for job in self._queue if job.context is not context]
                busy = sum(one.is_begun and not one.over.is_set() for one in self._jobs.values())
                self._end_all_but(keys, context)
                wanted = [self._jobs.setdefault((top, k), _Job(context, k)) for k in keys]
                self._queue = [*others, *(job for job in wanted if not job.is_begun)]
                most = min(self._width, len(self._queue) + busy)
                while not self._closed and self._at_work < most:
                    self._at_work += 1
                    self._workers.append(BackgroundTask(lambda: self._work(wave)))

    def _end_all_but(self, keys: Collection[Key], context: CloneContext) -> None:
        """End the runs of other keys: tests that are wanted wait for their slots."""
        for place, job in [*self._jobs.items()]:
            if job.context is context and job.key not in keys and not job.over.is_set():
                job.is_wanted = False
                del self._jobs[place]

    def _entries(self, wave: Wave, key: str) -> tuple[list[Entry], bool]:
        """The first items in the order of commits whose work is known, and True if these are all.
        While an agent is at work, only items with a verdict count: others may need a repair."""
        items = [one for one in wave.items if one.planned.home.key == key]
        is_whole = all(one in self._settled or one in self._offered for one in items)
        entries = list[Entry]()
        for one in items:
            if (entry := self._settled.get(one)) is not None:
                entries.append(entry)
            elif one not in self._settled:
                if not is_whole:
                    break
                entries.append(self._offered[one])
        return entries, is_whole

    def _work(self, wave: Wave) -> None:
        while True:
            wave.turns.wait_for_idle(lambda: self._closed)
            with self._lock:
                if self._closed or not self._queue:
                    self._at_work -= 1
                    return
                job = self._queue.pop(0)
                job.is_begun = True
            try:
                tree, test = job.key
                key = tree, replace(test, watch=job.watch)
                run = run_together(job.context, wave, key, Alone.NO, again=False)
                job.run = run if job.is_wanted and run.kind not in NO_ANSWER else None
            except (TidegateError, OSError):
                job.run = None
            finally:
                job.over.set()


def _may_begin(context: CloneContext, wave: Wave) -> bool:
    """True if the work ships, and no agent of the wave can reach the checkouts of tests."""
    guard = context.checkout_guard
    return wave.shipping.is_wanted and guard is not None and guard.walled


def _keys(
    entries: list[Entry], context: CloneContext, wave: Wave, *, is_whole: bool
) -> Iterator[Key]:
    """The keys that the batch of these entries asks for first, and that no item asks for itself."""
    if not entries or not (is_whole or context.git.small.files_of(context.base_tree)):
        return
    integration = Integration(context, wave, Head(context.base))
    trial = Trial(integration, entries)
    own = {trial.proof_key(number) for number in range(len(entries))}
    for keys in trial.first_keys(whole=is_whole):
        yield from (key for key in integration.longest_first(keys) if key not in own)
