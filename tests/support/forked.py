"""A run of the tests in several processes. Each is forked when all tests are known, and takes one
module after the other from a queue, the longest first; the first process tells what they report,
module by module.

A run that stops early, debugs, or shows what the tests print stays in one process.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest

Module = list[pytest.Item]
NUMBER_BYTES = 2  # of a module in the queue; a pipe holds some thirty thousand of them
# Of a test whose module was never timed here, by the folder that it is in.
SECONDS = {"faults": 1.5, "integration": 0.6, "attacks": 0.6, "contracts": 0.2, "documents": 0.2}
SECONDS_ELSEWHERE = 0.02
TIMES = "tidegate/seconds"  # in pytest's cache
DONE = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def is_possible(session: pytest.Session) -> bool:
    """Whether this run can be shared out without being another one."""
    option = session.config.option
    alone = option.collectonly or option.usepdb or option.maxfail or option.capture == "no"
    return hasattr(os, "fork") and not (alone or session.testsfailed)


def run(session: pytest.Session, processes: int) -> None:
    """Run all of the session's tests. Raises RuntimeError when a process ends without having
    reported what it took: nothing that was not run may look as if it had been."""
    if session.config.option.basetemp:  # which each process would empty otherwise
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    gc.freeze()  # what is there by now need not be copied when garbage is looked for
    modules = _longest_first(_modules(session.items), _cached_times(session.config))
    queue = _queue(len(modules))
    workers = []
    for _ in range(min(processes, len(modules))):
        reading, writing = os.pipe()
        _flush()
        pid = os.fork()
        if pid == 0:
            _work(session, modules, queue, writing)
            return
        os.close(writing)
        workers.append(_Worker(pid, reading))
    os.close(queue)
    told = _Told(session.config, modules)
    _follow(workers, told)
    if cache := getattr(session.config, "cache", None):
        cache.set(TIMES, _cached_times(session.config) | told.seconds)


def _modules(items: Sequence[pytest.Item]) -> list[Module]:
    found: dict[Path, Module] = {}
    for item in items:
        found.setdefault(item.path, []).append(item)
    return list(found.values())


def _cached_times(config: pytest.Config) -> dict[str, float]:
    """The seconds of one test of each module in earlier runs, as far as they are kept."""
    cache = getattr(config, "cache", None)
    return {} if cache is None else cache.get(TIMES, {})


def _longest_first(modules: list[Module], known: Mapping[str, float]) -> list[Module]:
    """A long module that is begun last would leave all other processes idle."""

    def seconds(module: Module) -> float:
        guessed = SECONDS.get(module[0].path.parent.name, SECONDS_ELSEWHERE)
        return len(module) * known.get(_name(module), guessed)

    return sorted(modules, key=seconds, reverse=True)


def _name(module: Module) -> str:
    """The module's, and which of its tests were asked for: some are long."""
    return f"{module[0].nodeid.partition('::')[0]} {module[0].config.option.markexpr}"


def _queue(count: int) -> int:
    """A pipe to read the numbers of all modules from; each reader gets others."""
    reading, writing = os.pipe()
    os.write(writing, b"".join(number.to_bytes(NUMBER_BYTES, "big") for number in range(count)))
    os.close(writing)
    return reading


def _flush() -> None:
    """What is still in a buffer would be written by each process."""
    sys.stdout.flush()
    sys.stderr.flush()


def _work(session: pytest.Session, modules: Sequence[Module], queue: int, writing: int) -> None:
    """One process's life, up to the end of the session, which it goes through like any other."""
    config = session.config
    # pytest's own plugins keep no records of a run in a process that has this attribute.
    config.workerinput = {}  # type: ignore[attr-defined]
    config.pluginmanager.register(_Reporter(config, writing))
    _capture_apart(config)
    between = _Between.from_parent(session, name="between")
    for number in _taken(queue):
        for item, following in pairwise([*modules[number], between]):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)


class _Between(pytest.Item):
    """The test that follows the last one of a module, and is never run: what is the module's ends,
    what is the session's stays. Which module comes next is decided when that test is over."""

    def runtest(self) -> None:
        raise NotImplementedError


def _capture_apart(config: pytest.Config) -> None:
    """The first process's files are everybody's; what this one tells of itself is for nobody."""
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    capture.start_global_capturing()
    capture.suspend_global_capture()


def _taken(queue: int) -> Iterator[int]:
    while number := os.read(queue, NUMBER_BYTES):
        yield int.from_bytes(number, "big")


def _follow(workers: Sequence[_Worker], told: _Told) -> None:
    with selectors.DefaultSelector() as ready:
        for worker in workers:
            ready.register(worker.reading, selectors.EVENT_READ, worker)
        while ready.get_map():
            for key, _ in ready.select():
                if (reports := key.data.reports(told.config)) is None:
                    ready.unregister(key.fd)
                for report in reports or ():
                    told.add(report)
    ends = [worker.end() for worker in workers]
    if any(ends) or told.missing:
        raise RuntimeError(
            f"the tests' processes ended with {ends}, and {len(told.missing)} tests without a"
            f" report, such as {min(told.missing, default='none')}"
        )


@dataclass(frozen=True)
class _Reporter:
    config: pytest.Config
    writing: int

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        hook = self.config.hook
        data = hook.pytest_report_to_serializable(config=self.config, report=report)
        rest = memoryview(json.dumps(data).encode() + b"\n")
        while rest:
            rest = rest[os.write(self.writing, rest) :]


@dataclass
class _Worker:
    pid: int
    reading: int
    unread: bytes = b""
    has_failed: bool = False

    def reports(self, config: pytest.Config) -> list[pytest.TestReport] | None:
        """Those that came; None at the end."""
        came = os.read(self.reading, 1 << 20)
        if not came:
            return None
        *lines, self.unread = (self.unread + came).split(b"\n")
        found = [_report(config, json.loads(line)) for line in lines]
        self.has_failed |= any(report.failed for report in found)
        return found

    def end(self) -> int:
        """The exit code, which a process whose tests all passed has to keep at 0."""
        os.close(self.reading)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return 0 if code in DONE and bool(code) == self.has_failed else code or 1


def _report(config: pytest.Config, data: dict[str, Any]) -> pytest.TestReport:
    if isinstance(data["longrepr"], list):  # a skipped test's: JSON has no tuples
        data["longrepr"] = tuple(data["longrepr"])
    found = config.hook.pytest_report_from_serializable(config=config, data=data)
    assert isinstance(found, pytest.TestReport)
    return found


class _Told:
    """What was reported, told to the other plugins as soon as a whole module is there."""

    def __init__(self, config: pytest.Config, modules: Sequence[Module]) -> None:
        self.config = config
        self.module_of = {item.nodeid: module for module in modules for item in module}
        self.reports: dict[str, list[pytest.TestReport]] = {}
        self.missing = set(self.module_of)
        self.seconds: dict[str, float] = {}

    def add(self, report: pytest.TestReport) -> None:
        self.reports.setdefault(report.nodeid, []).append(report)
        if report.when == "teardown":
            self.missing.discard(report.nodeid)
            module = self.module_of[report.nodeid]
            if self.missing.isdisjoint(item.nodeid for item in module):
                self._tell(module)

    def _tell(self, module: Module) -> None:
        hook = self.config.hook
        reports = chain.from_iterable(self.reports[item.nodeid] for item in module)
        took_s = sum(report.duration for report in reports)
        self.seconds[_name(module)] = round(took_s / len(module), 3)
        for item in module:
            where = {"nodeid": item.nodeid, "location": item.location}
            hook.pytest_runtest_logstart(**where)
            for report in self.reports.pop(item.nodeid):
                hook.pytest_runtest_logreport(report=report)
            hook.pytest_runtest_logfinish(**where)
