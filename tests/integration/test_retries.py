"""Backends whose provider fails: what is tried again, and what it counts for."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import (
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from tests.support.beside import beside
from tests.support.waves import Agent, ScriptedDriver, Step

BUSY = ProviderFault(FaultKind.OVERLOADED, "busy")
LATER = ProviderFault(FaultKind.RATE_LIMITED, "later", 429, retry_after_s=60)


def fails(fault: ProviderFault, usage: Usage | None = None) -> Step:
    def step(_agent: Agent) -> WorkerResult:
        failed = WorkerResult("", error=fault.message, failure=FAILURE_COULD_NOT_RUN, fault=fault)
        failed.usage = usage or Usage(0, 0, 0.0)
        return failed

    return step


def works(agent: Agent) -> None:
    agent.write({"a.txt": "x"})


def dispatched(
    steps: Sequence[Step], folder: Path, **options: Any
) -> tuple[WorkerResult, ScriptedDriver]:
    driver = ScriptedDriver({"a": steps}, environ={}, **options)
    request = WorkerRequest("p", workdir=str(folder), environment={"TIDEGATE_ITEM": "a"})
    return driver.dispatch_worker(request), driver


@beside
def test_a_fault_that_passes_costs_no_more_than_what_was_billed(folder: Path) -> None:
    result, driver = dispatched([fails(BUSY, Usage(10, 1, 0.01)), works], folder)
    assert (result.ok, result.usage) == (True, Usage(80, 31, 0.02))
    assert (driver.get_tokens_spent(), driver.get_unmetered_dispatches()) == (111, 0)


@beside
def test_unknown_use_of_one_try_leaves_the_whole_unknown(folder: Path) -> None:
    result, driver = dispatched([fails(BUSY, Usage()), works], folder)
    assert (result.ok, result.tokens_spent) == (True, None)
    assert (driver.get_tokens_spent(), driver.get_unmetered_dispatches()) == (100, 1)


@pytest.mark.parametrize("kind", [FaultKind.BAD_KEY, FaultKind.USAGE_LIMIT, FaultKind.NO_CREDIT])
@beside
def test_a_fault_that_does_not_pass_is_told_at_once(folder: Path, kind: FaultKind) -> None:
    fault = ProviderFault(kind, "no")
    result, driver = dispatched([fails(fault), works], folder)
    assert (result.ok, result.fault, len(driver.requests)) == (False, fault, 1)


@beside
def test_no_retries_means_one_try(folder: Path) -> None:
    result, driver = dispatched([fails(BUSY), works], folder, retries=0)
    assert (result.fault, len(driver.requests)) == (BUSY, 1)


@beside
def test_a_wait_that_would_outlast_the_limit_is_not_begun(folder: Path) -> None:
    result, driver = dispatched([fails(LATER), works], folder, timeout_s=5.0)
    assert (result.fault, len(driver.requests)) == (LATER, 1)


@beside
def test_cancel_ends_a_wait_for_the_provider(folder: Path) -> None:
    failed = threading.Event()

    def step(agent: Agent) -> WorkerResult | None:
        failed.set()
        return fails(LATER)(agent)

    driver = ScriptedDriver({"a": [step], "b": [works]}, environ={})
    results = []

    def dispatch(slug: str) -> None:
        request = WorkerRequest("p", workdir=str(folder), environment={"TIDEGATE_ITEM": slug})
        results.append(driver.dispatch_worker(request))

    first = threading.Thread(target=dispatch, args=("a",))
    first.start()
    assert failed.wait(60)
    second = threading.Thread(target=dispatch, args=("b",))
    second.start()
    driver.cancel()
    for thread in (first, second):
        thread.join(60)
        assert not thread.is_alive()
    assert len(driver.requests) == 1
    assert {result.failure for result in results} == {FAILURE_COULD_NOT_RUN, FAILURE_CANCELLED}
