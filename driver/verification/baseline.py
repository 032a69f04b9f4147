"""An item's test on the base commit: run beside the agent, once for all who ask the same.

Kept in `<state>/baselines.json` as well, for later waves on the same base. That file is a cache:
what it does not hold, or holds no longer, is run again. What others wrote there while the wave ran
is not kept: it may be an agent's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from driver.domain.item_key import digest
from driver.domain.prompts import command_text
from driver.domain.results import BASELINE, Evidence, RunKind, TestRun
from driver.execution.cancellation import CancellationToken
from driver.execution.process_identity import RUN_VARIABLE
from driver.execution.worker_pool import BackgroundTask
from driver.run_state.context import ItemRun
from driver.run_state.run_registry import BASELINES
from driver.terminal.safe_text import describe_run
from driver.verification.test_run import run_test, test_environment
from driver.workspace.clone_context import CloneContext
from state_store.documents import strict_json
from state_store.documents.errors import TidegateError
from state_store.documents.files import BadFileError, read_text, write_json_atomic

OFF = "off"
_KEPT = 500
_FRESH_S = 7 * 86_400  # what is installed around the repository changes, and no key says so
_TICK_S = 0.1
_ANSWERS = (RunKind.GREEN, RunKind.RED)
_VERSION = 1


class WaveBaselines:
    """The baselines of one wave; `state_dir` None keeps none of them. Safe to use from threads."""

    def __init__(self, state_dir: Path | None, stop: CancellationToken) -> None:
        self._stop = stop
        self._file = state_dir / BASELINES if state_dir else None
        self._lock = threading.Lock()
        self._running: dict[str, BackgroundTask[Evidence]] = {}
        self._text = _text(self._file)
        self._entries = _entries(self._text)
        self._kept = _load(self._entries)
        self._news: dict[str, dict[str, Any]] = {}
        self._keys: dict[str, str] = {}
        self._closed = False

    def begin(self, item: ItemRun) -> None:
        """Start the item's test on its base, unless that is known or not wanted."""
        ground = item.repository
        if item.wave.settings.verify.red_first == OFF or ground is None:
            return
        key = self._key(item, ground)
        with self._lock:
            if key not in self._running and key not in self._kept:
                self._running[key] = BackgroundTask(lambda: self._run(key, item, ground))

    def of(self, item: ItemRun) -> Evidence:
        """The item's baseline; waits for its end."""
        ground = item.repository
        if item.wave.settings.verify.red_first == OFF:
            return Evidence(baseline_note='[verify] red_first = "off"')
        if ground is None:
            return Evidence(baseline_note="worked on in place, so there is no base to test")
        key = self._key(item, ground)
        with self._lock:
            running, kept = self._running.get(key), self._kept.get(key)
        if running is not None:
            return running.result()
        return kept if kept is not None else Evidence(baseline_note="not run")

    def _key(self, item: ItemRun, ground: CloneContext) -> str:
        # Asked several times for each attempt, and made of the whole environment.
        if item.slug not in self._keys:
            self._keys[item.slug] = _key(item, ground)
        return self._keys[item.slug]

    def close(self) -> None:
        """Start no further run, wait for those at work unless the wave was stopped, keep them."""
        with self._lock:
            self._closed = True
        for running in self._running.values():
            while not running.wait(_TICK_S) and not self._stop.is_set:
                pass
        self._save()

    def _run(self, key: str, item: ItemRun, ground: CloneContext) -> Evidence:
        ground.wait_for_clones()
        try:
            with ground.test_checkout(ground.base_tree) as proving:
                if self._closed:
                    return Evidence(baseline_note="not run: the wave was over")
                output = item.scratch / BASELINE
                run = run_test(item, proving, ground.base_tree, output, purpose=BASELINE)
        except (TidegateError, OSError) as trouble:
            run = _not_run(item, f"the base could not be tested: {trouble}")
        told = describe_run(run.kind, run.duration_s)
        item.say(f"test on the base {told}")
        if run.kind in _ANSWERS and not item.wave.settings.workspace.copy:
            with self._lock:
                self._news[key] = {"at": time.time(), "receipt": run.to_json()}
        return Evidence(run)

    def _save(self) -> None:
        if self._file is None or not (self._news or _text(self._file) != self._text):
            return
        runs = {**self._entries, **self._news}
        newest = sorted(runs.items(), key=lambda pair: float(pair[1]["at"]))[-_KEPT:]
        try:
            write_json_atomic(self._file, {"version": _VERSION, "runs": dict(newest)})
        except TidegateError:  # it is run again then
            return


def _key(item: ItemRun, ground: CloneContext) -> str:
    wave = item.wave
    environment = test_environment(wave.settings, wave.mark)
    environment.pop(RUN_VARIABLE)
    command, setup = item.spec.test_command, wave.settings.workspace.setup
    facts = (str(ground.repository.top), ground.base_tree, command, item.work_dir, setup)
    return digest(*facts, sorted(environment.items()), wave.settings.verify.timeout_s)


def _not_run(item: ItemRun, why: str) -> TestRun:
    return TestRun(
        kind=RunKind.COULD_NOT_RUN,
        command=command_text(item.spec.test_command),
        exit_code=None,
        output="",
        duration_s=0.0,
        reason=why,
        purpose=BASELINE,
        base=item.context.base,
        work_dir=item.work_dir,
    )


def _load(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Evidence]:
    found = {key: TestRun.from_json(entry["receipt"]) for key, entry in entries.items()}
    return {key: Evidence(replace(run, cached=True)) for key, run in found.items() if run}


def _text(path: Path | None) -> str:
    try:
        return read_text(path) if path else ""
    except BadFileError:
        return ""


def _entries(text: str) -> dict[str, dict[str, Any]]:
    """What the file's text holds and is young enough."""
    try:
        document = strict_json.parse(text)
    except ValueError:
        return {}
    runs = document.get("runs") if isinstance(document, Mapping) else None
    oldest = time.time() - _FRESH_S
    return {
        key: dict(entry)
        for key, entry in (runs if isinstance(runs, Mapping) else {}).items()
        if isinstance(entry, Mapping)
        and isinstance(entry.get("receipt"), Mapping)
        and isinstance(entry.get("at"), float)
        and oldest < entry["at"] <= time.time()
    }
