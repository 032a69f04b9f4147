"""What a backend is sent for an item of a wave, and what it said: for agents, readers and tests.

A backend is foreign code: one that raises gave no answer, and what it says it used is made sound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.backend_api.driver import (
    FAILURE_COULD_NOT_RUN,
    ROLE_VERIFY,
    AgentDriver,
    CommandLimits,
    CommandResult,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.models import own_prices
from driver.backends.duck_typed import as_ours
from driver.backends.pricing import sound
from driver.domain.results import BUILD, REPAIR, REVIEW
from driver.execution.process_identity import RUN_VARIABLE
from driver.filesystem.tree import remove_tree
from driver.run_state.context import AssignedBackend, ItemRun, Wave

TEXT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Call:
    """What an agent is to be sent. `phase` is the word of books and journal, `told` what the agent
    hears where that is another; `number` counts its dispatches, `attempts` those of the item where
    that is another number; `retries` are further dispatches of one that did not come to its end."""

    number: int
    phase: str
    prompt: str
    performer: AssignedBackend
    model: str | None = None
    told: str = ""
    effort: str | None = None
    timeout_s: float | None = None
    retries: int = 0
    attempts: int | None = None
    artifact: Path | None = None

    @property
    def folder(self) -> str:
        """The name of the folder for all that it prints."""
        works = self.phase in (BUILD, REPAIR)
        return f"agent-{self.number}" if works else f"{self.phase}-{self.number}"

    @property
    def heard(self) -> str:
        """The phase as its agent hears it; a replay knows the dispatch again by that."""
        return self.told or self.phase


@dataclass(frozen=True, slots=True)
class ReviewCall:
    """One call of a reviewer; its answer has to fit `schema` and repeat `nonce`."""

    number: int
    prompt: str
    nonce: str
    schema: Mapping[str, Any]
    effort: str | None = None
    timeout_s: float | None = None


def dispatch(item: ItemRun, call: Call) -> WorkerResult:
    """Run one agent in the item's place. A backend that raises gave no answer at all."""
    request = _request(item, call)
    request.workdir = str(item.workspace.workdir)
    request.environment = {**request.environment, "TIDEGATE_WORKSPACE": str(item.workspace.top)}
    return _sent(call.performer.driver, request, item.wave)


def dispatch_reader(item: ItemRun, copy: Path, call: Call) -> WorkerResult:
    """Have an agent look at a copy of the item's work and answer with a text. `artifact` is the
    file that it may write that to; a backend that sees no files answers with an object."""
    request = _request(item, call)
    request.workdir, request.role = str(copy / item.work_dir), ROLE_VERIFY
    request.environment = {
        **request.environment,
        "TIDEGATE_WORKSPACE": str(copy),
        **({"TIDEGATE_ARTIFACT_FILE": str(call.artifact)} if call.artifact else {}),
    }
    if not call.performer.driver.probe_capabilities().worker_filesystem_access:
        request.result_schema = dict(TEXT_SCHEMA)
    return _sent(call.performer.driver, request, item.wave)


def _request(item: ItemRun, call: Call) -> WorkerRequest:
    spec = item.spec
    return WorkerRequest(
        prompt=call.prompt,
        owned_files=spec.owns_files,
        model=call.model,
        label=f"dispatch:{item.slug}",
        phase=spec.phase,
        effort=call.effort or spec.effort,
        scratch=_made_folder(item.scratch / call.folder),
        environment=_told(item, call.heard, call.number),
        timeout_s=call.timeout_s,
    )


def dispatch_reviewer(
    item: ItemRun, copy: Path, reviewer: AssignedBackend, call: ReviewCall
) -> WorkerResult:
    """Have a reviewer read a copy of the item's work. One that raises gave no answer at all."""
    spec = item.spec
    scratch = item.scratch / f"review-{call.number}"
    remove_tree(scratch)  # whatever is there now is nobody's verdict on this call
    request = WorkerRequest(
        prompt=call.prompt,
        owned_files=spec.owns_files,
        workdir=str(copy / item.work_dir),
        model=reviewer.model,
        role=ROLE_VERIFY,
        label=f"review:{item.slug}",
        phase=REVIEW,
        result_schema=dict(call.schema),
        effort=call.effort or spec.effort,
        timeout_s=call.timeout_s,
        scratch=_made_folder(scratch),
        environment={
            **_told(item, REVIEW, call.number),
            "TIDEGATE_WORKSPACE": str(copy),
            "TIDEGATE_NONCE": call.nonce,
        },
    )
    return _sent(reviewer.driver, request, item.wave)


def _told(item: ItemRun, phase: str, number: int) -> dict[str, str]:
    """What every agent finds in its environment."""
    return {
        RUN_VARIABLE: item.wave.mark,
        "TIDEGATE_ITEM": item.slug,
        "TIDEGATE_PHASE": phase,
        "TIDEGATE_ATTEMPT": str(number),
    }


def _sent(driver: AgentDriver, request: WorkerRequest, wave: Wave) -> WorkerResult:
    try:
        result = as_ours(WorkerResult, driver.dispatch_worker(request))
        named = result.model or request.model or driver.resolve_model(request.role)
        result.usage = sound(result, named, own_prices(wave.settings.prices))
        return result
    except Exception as error:  # noqa: BLE001 - backends are foreign code; their bug is not the wave's
        return WorkerResult(
            worker_id="",
            error=f"dispatch_item internal error: {error!r}",
            failure=FAILURE_COULD_NOT_RUN,
        )


def run_test_command(
    driver: AgentDriver, command: str | tuple[str, ...], folder: Path, limits: CommandLimits
) -> CommandResult:
    """Run a test. A backend that raises has not run it, so nothing is known of the work."""
    given = command if isinstance(command, str) else list(command)
    try:
        return driver.run_bounded(given, str(folder), limits)
    except Exception as error:  # noqa: BLE001 - as above
        return CommandResult(1, could_not_run=f"the backend's run_command broke: {error!r}")


def _made_folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
