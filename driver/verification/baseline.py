"""Runs an item's test on the base commit in the background. Items of a wave that need the same run
share it. No run is kept for later waves, because an agent could forge the file."""

from __future__ import annotations

import threading

from driver.domain.prompts import command_text
from driver.domain.results import BASELINE, Evidence, RunKind, TestRun
from driver.execution.cancellation import CancellationToken
from driver.execution.worker_pool import BackgroundTask
from driver.policy import known_red
from driver.run_state.context import ItemRun
from driver.run_state.test_turns import Alone
from driver.terminal.safe_text import describe_run
from driver.verification.alone import room_of_a_clash, settled
from driver.verification.test_run import own_test, run_test
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import TidegateError

OFF = "off"
_TICK_S = 0.1
_Key = tuple[str, str, str | tuple[str, ...], str]


class _WaveOverError(Exception):
    """The wave ended before the run began."""


class WaveBaselines:
    """The baselines of one wave. Safe to use from threads."""

    def __init__(self, stop: CancellationToken) -> None:
        self._stop = stop
        self._lock = threading.Lock()
        self._running: dict[_Key, BackgroundTask[Evidence]] = {}
        self._closed = False

    def begin(self, item: ItemRun) -> None:
        """Start the item's test on its base, unless it is already started or switched off."""
        context = item.repository
        if item.wave.settings.verify.red_first == OFF or context is None:
            return
        key = _key(item, context)
        with self._lock:
            if key not in self._running:
                self._running[key] = BackgroundTask(lambda: self._run(item, context))

    def of(self, item: ItemRun) -> Evidence:
        """The item's baseline; waits for its end."""
        if item.wave.settings.verify.red_first == OFF:
            return Evidence(baseline_note='[verify] red_first = "off"')
        if item.repository is None:
            return Evidence(baseline_note="work in place has no base to test")
        context, key = item.repository, _key(item, item.repository)
        with self._lock:
            running = self._running.get(key)
        if running is None:
            return Evidence(baseline_note="not run")
        found = running.result()
        if not _is_suspect(item, found.baseline):
            return found
        with self._lock:
            if self._running[key] is running:
                self._running[key] = BackgroundTask(lambda: self._run(item, context))
            running = self._running[key]
        return running.result()

    def close(self) -> None:
        """Start no more runs. Waits for the runs under way, unless the wave was stopped."""
        with self._lock:
            self._closed = True
        for running in self._running.values():
            while not running.wait(_TICK_S) and not self._stop.is_set:
                pass

    def _run(self, item: ItemRun, context: CloneContext) -> Evidence:
        context.wait_for_clones()
        test, tree, output = own_test(item), context.base_tree, item.scratch / BASELINE

        def once(room: Alone) -> TestRun:
            with context.test_checkout(tree) as checkout:
                if self._closed:
                    raise _WaveOverError
                asked = test.with_room(room)
                run = run_test(asked, checkout, tree, item.wave, output, purpose=BASELINE)
            allowed = known_red.allowed_on(run, item.wave.settings.verify.known_red)
            return known_red.accepted(run, allowed, run.exit_code)

        try:
            # Red is the usual answer here, so only a red run that tells of a clash is repeated.
            run = settled(item.wave, test.name, once, lambda run, _: room_of_a_clash(run))
        except _WaveOverError:
            return Evidence(baseline_note="not run: the wave was over")
        except (TidegateError, OSError) as trouble:
            run = TestRun(
                kind=RunKind.COULD_NOT_RUN,
                command=command_text(item.spec.test_command),
                exit_code=None,
                output="",
                duration_s=0.0,
                reason=f"the base could not be tested: {trouble}",
                purpose=BASELINE,
                base=context.base,
                work_dir=item.work_dir,
            )
        item.say(f"test on the base {describe_run(run.kind, run.duration_s)}", passing=True)
        return Evidence(run)


def _is_suspect(item: ItemRun, run: TestRun | None) -> bool:
    """True for a red run beside others, if its command was found to need more room since."""
    if run is None or run.green:
        return False
    name = own_test(item).name
    room = item.wave.turns.known(name)
    return name in run.beside if room is Alone.COMMAND else bool(room and run.beside)


def _key(item: ItemRun, context: CloneContext) -> _Key:
    """The key of a shared run. Environment, set-up and time limit are the same for the
    whole wave."""
    top, command = str(context.repository.top), item.spec.test_command
    return top, context.base_tree, command, item.work_dir
