"""What several tries of one dispatch are together."""

from __future__ import annotations

from pathlib import Path

from driver.backend_api.driver import Usage, WorkerRequest, WorkerResult
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.tries import Tries


def test_every_try_has_a_scratch_folder_of_its_own() -> None:
    tries = Tries(WorkerRequest("p", scratch=Path("agent-1")))
    folders = [tries.next_request().scratch for _ in range(3)]
    assert folders == [Path("agent-1"), Path("agent-1/try-2"), Path("agent-1/try-3")]


def test_the_last_try_counts_with_what_all_have_used() -> None:
    tries = Tries(WorkerRequest("p"))
    tries.add(WorkerResult("w", error="first", usage=Usage(1, 1, 0.5)))
    tries.add(WorkerResult("w", error="second", usage=Usage(2, 2, 0.5)))
    assert tries.result is not None
    assert (tries.result.error, tries.result.usage) == ("second", Usage(3, 3, 1.0))


def test_a_second_silence_is_not_waited_for() -> None:
    silent = ProviderFault(FaultKind.SILENT, "s")
    busy = ProviderFault(FaultKind.OVERLOADED, "o")
    tries = Tries(WorkerRequest("p"))
    faults = [silent, busy, silent]
    waited = [tries.fault_to_wait_for(WorkerResult("w", fault=fault)) for fault in faults]
    assert waited == [silent, busy, None]
