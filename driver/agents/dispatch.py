"""Asks an agent: admission, reservation, retries, recording, guard.

A builder works in the item's workspace. A read-only agent and a reviewer read a temporary copy of
its tree. `agent_request` makes the requests. A backend is foreign code: an exception counts as no
answer, and its usage figures are corrected.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any

from driver.agents.agent_request import AgentRequest
from driver.agents.instructions import instructions
from driver.agents.secret_check import redacted_result
from driver.backend_api.driver import (
    ALL_SETTINGS,
    FAILURE_AGENT,
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_TIMED_OUT,
    INSTRUCTIONS,
    ROLE_WORKER,
    AgentDriver,
    CommandLimits,
    CommandResult,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.models import own_prices
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.duck_typed import as_ours
from driver.backends.pricing import sound
from driver.backends.recorded import Recorded, without_nonce
from driver.checkout_guard.guard import CheckoutChange, attribution
from driver.domain.prompts import command_text
from driver.domain.results import REVIEW
from driver.execution.cancellation import InterruptedWaveError
from driver.execution.command import child_environment
from driver.execution.process_identity import RUN_VARIABLE
from driver.filesystem.build_folders import private_builds
from driver.filesystem.tree import remove_tree
from driver.limits.admission import CEILING, GateClosedError
from driver.limits.spending import Dispatch
from driver.limits.usage_sums import sum_usage
from driver.run_state import steps
from driver.run_state.context import ItemRun
from driver.run_state.slots import slot
from driver.walls.wall import Role
from driver.workspace.repository_context import TestCheckout
from state_store.documents.errors import TidegateError
from state_store.documents.journal import safe_slug
from state_store.redaction.installed import redacted
from state_store.values.lazy_dataclass import dataclass, replace

_RUNS_AT_LIMIT = 2
_ENDED_BADLY = (FAILURE_AGENT, FAILURE_TIMED_OUT, FAILURE_COULD_NOT_RUN)


@dataclass(frozen=True, slots=True)
class Dispatched:
    """An agent's answer. `files` is the workspace, or the copy that the agent reads.
    `checkout_changes` returns the changes of the user's checkout that are attributed to the
    item. After a `final` failure no repair is worth its money."""

    request: AgentRequest
    result: WorkerResult
    duration_s: float
    files: TestCheckout
    checkout_changes: Callable[[], tuple[CheckoutChange, ...]]
    final: bool = False

    def attribution(self) -> str:
        """A sentence about the changes in the checkout that keep the item back; "" for none. An
        agent that only reads has no work that could show a change as its own."""
        try:
            return attribution(c for c in self.checkout_changes() if c.holds_back)
        except TidegateError as error:
            return str(error)

    def record(self, item: ItemRun, **seen: Any) -> None:
        """Add the dispatch to the recording, if there is one, with the fields `seen`."""
        if item.wave.options.recording is None:
            return
        entry = Recorded.of(
            self.result,
            self.duration_s,
            item=item.slug,
            phase=self.request.shown_phase,
            number=self.request.number,
            prompt=without_nonce(self.request.prompt, self.request.nonce),
        )
        item.wave.options.recording.write(replace(entry, **seen))


@contextmanager
def dispatch(item: ItemRun, request: AgentRequest) -> Iterator[Dispatched]:
    """The answer that counts: of the first try that finished, else of the last try. Its usage is
    the known sum of all tries. The checkout is guarded until the block ends. Raises GateClosedError
    or InterruptedWaveError before it costs anything."""
    spending, gates = item.wave.spending, request.backend.gates
    request = replace(request, prompt=redacted(request.prompt))
    spending.check(gates)
    own = nullcontext(TestCheckout(item.workspace.top, environment=item.workspace.environment))
    copy = item.workspace.reading_copy(request.tree) if request.tree else own
    with item.guarded() as checkout_changes, copy as files:
        started, used = time.monotonic(), list[Usage]()
        result = _dispatched_once(item, request, files, used)
        for _ in range(request.retries):
            if not _may_end_better(result) or _too_often_at_limit(item, request, result):
                break
            item.say(f"{request.shown_phase} did not finish ({result.error}); retrying")
            try:
                spending.check(gates)
                result = _dispatched_once(item, request, files, used)
            except (GateClosedError, InterruptedWaveError) as stopped:
                # Not raised, or the usage of the earlier tries would be lost.
                why = f"{result.error}; not tried again: {stopped}"
                at_ceiling = isinstance(stopped, GateClosedError) and stopped.gate == CEILING
                failure = result.failure if at_ceiling else FAILURE_CANCELLED
                result = replace(result, failure=failure, error=why)
                break
        charged = _paid_failure(result, used)
        final = charged is not None or _too_often_at_limit(item, request, result)
        result = replace(charged or result, usage=sum_usage(used))
        duration_s = time.monotonic() - started
        yield Dispatched(request, result, duration_s, files, checkout_changes, final)


def _may_end_better(result: WorkerResult) -> bool:
    """True if another try may help: after a failure of the process or provider, never of
    the work."""
    lasting = result.fault is not None and result.fault.lasting
    foreign = (result.error or "").startswith("out-of-scope:")
    return not result.ok and result.failure in _ENDED_BADLY and not lasting and not foreign


def _too_often_at_limit(item: ItemRun, request: AgentRequest, result: WorkerResult) -> bool:
    """True if the dispatch ended at a limit, and another one of the item did too. A third would
    hardly end otherwise, and costs as much."""
    return bool(result.limit) and item.at_limit[request.role] >= _RUNS_AT_LIMIT


def _paid_failure(result: WorkerResult, used: Sequence[Usage]) -> WorkerResult | None:
    """The result as a failure of the agent if tries without an answer were paid; None if nothing
    is known to be paid. Without an attempt every run would pay for them again."""
    lasting = result.fault is not None and result.fault.lasting
    usd = math.fsum(one.known_usd for one in used)
    tokens = sum(one.known_tokens for one in used)
    if result.failure != FAILURE_COULD_NOT_RUN or lasting or not (usd or tokens):
        return None
    price = f"{usd:.2f} USD" if usd else f"{tokens} tokens"
    error = f"{result.error} (this has cost {price})"
    return replace(result, failure=FAILURE_AGENT, error=error)


def _dispatched_once(
    item: ItemRun, request: AgentRequest, files: TestCheckout, used: list[Usage]
) -> WorkerResult:
    """The answer of one dispatch; adds the use of each of its tries to `used`."""
    wave, backend, phase = item.wave, request.backend, request.phase
    with wave.spending.dispatch(
        backend.driver,
        item.slug,
        phase=phase,
        number=request.number,
        model=request.model,
        backend=backend.gates,
    ) as one:
        number, model = request.number, request.model
        if phase == REVIEW:
            started = steps.review_started(number, request.tree, model)
        else:
            name = backend.driver.name
            started = steps.agent_started(phase, number, name, model, request.attempts)
        wave.recorder.record(item.key, started)
        if phase != REVIEW:
            item.started = (phase, request.number)
        result = one.run(partial(_sent, item, request, files, one))
    used += [*one.booked, *([] if one.has_only_booked else [result.usage])]
    if not _of_its_own_model(request, result.fault):
        backend.gates.met(result.fault)
    if result.fault is None:
        backend.gates.worked()
    elif result.fault.did_nothing and request.tree is not None:
        backend.gates.did_nothing(item.slug, result.fault)
    _note_limit(item, request, result)
    if result.survivors:
        agent = "the reviewer" if phase == REVIEW else "the agent"
        item.say(f"{agent} left processes running, now ended: {', '.join(result.survivors)}")
    return result


def _note_limit(item: ItemRun, request: AgentRequest, result: WorkerResult) -> None:
    """Name the setting whose limit ended the agent, and count such agents of the item."""
    if result.failure == FAILURE_TIMED_OUT and not result.limit:
        own = f"timeout_s of the phase {request.shown_phase}"
        result.limit = own if request.timeout_s else "[backend] timeout_s"
    if result.limit:
        result.error = f"{result.error}; this limit is {result.limit}"
        # A backend has already repeated a silent agent once by itself.
        silent = result.fault is not None and result.fault.kind is FaultKind.SILENT
        item.at_limit[request.role] += _RUNS_AT_LIMIT if silent else 1


def _of_its_own_model(request: AgentRequest, fault: ProviderFault | None) -> bool:
    """True if the item requests its own model and the backend does not know it: other items can go
    on."""
    if fault is None or fault.kind is not FaultKind.UNKNOWN_MODEL or not request.model:
        return False
    roles = {ROLE_WORKER, request.role}
    return request.model not in {request.backend.driver.resolve_model(role) for role in roles}


def _sent(item: ItemRun, request: AgentRequest, files: TestCheckout, one: Dispatch) -> WorkerResult:
    """The answer of one dispatch. Files of earlier ones are removed first."""
    driver, scratch = request.backend.driver, item.scratch / request.folder
    if request.nonce:
        remove_tree(scratch)
    if request.artifact:
        with suppress(OSError):
            request.artifact.unlink()
    scratch.mkdir(parents=True, exist_ok=True)
    worker_request = _worker_request(
        item, request, files, scratch, partial(_booked, item, request, one)
    )
    try:
        with slot() as own:
            asked = replace(worker_request, environment={**worker_request.environment, **own})
            result = redacted_result(as_ours(WorkerResult, driver.dispatch_worker(asked)))
        result.usage = _sound(item, request, result)
        return result
    except Exception as error:  # noqa: BLE001 - backends are foreign code; their bug is not the wave's
        return WorkerResult(
            worker_id="",
            error=f"dispatch_item internal error: {error!r}",
            failure=FAILURE_COULD_NOT_RUN,
        )


def _worker_request(
    item: ItemRun,
    request: AgentRequest,
    files: TestCheckout,
    scratch: Path,
    between_tries: Callable[[Usage], str],
) -> WorkerRequest:
    """The request to a backend, with the walls for its program."""
    spec, driver, is_review = item.spec, request.backend.driver, request.phase == REVIEW
    wanted, base, text = "" if is_review else driver.project_settings, item.context, ""
    if wanted == INSTRUCTIONS:
        text = redacted(instructions(base.paths, base.text, item.work_dir, spec.owns_files))
    walls, places = item.wave.walls, item.wave.places(files.path)
    places = replace(places, written=(scratch, *_build_folder(item)))
    # Its compilers begin with what its test compiled on the base, if that has run already.
    test = (item.wave.base_tree(files.path), item.work_dir, command_text(spec.test_command))
    inside = walls.around(Role.AGENT, places).compiling(test, on_base=False)
    return WorkerRequest(
        prompt=request.prompt,
        owned_files=spec.owns_files,
        workdir=str(files.path / item.work_dir),
        model=request.model,
        role=request.role,
        label=f"{'review' if is_review else 'dispatch'}:{item.slug}",
        phase=REVIEW if is_review else spec.phase,
        effort=request.effort,
        timeout_s=request.timeout_s,
        result_schema=dict(request.schema) if request.schema else None,
        scratch=scratch,
        environment=_environment(item, request, files),
        between_tries=between_tries,
        instructions=text,
        commands=tuple(command_text(c) for c in (spec.test_command, spec.self_check) if c),
        whole_project=wanted == ALL_SETTINGS,
        is_enclosed=walls.closed and driver.encloses,
        enclosure=inside,
    )


def _sound(item: ItemRun, request: AgentRequest, result: WorkerResult) -> Usage:
    model = result.model or request.model or request.backend.driver.resolve_model(request.role)
    return sound(result, model, own_prices(item.wave.settings.prices))


def _booked(item: ItemRun, request: AgentRequest, one: Dispatch, usage: Usage) -> str:
    """Book a try before the backend starts another; returns the reason why none may start, or
    ""."""
    used = _sound(item, request, WorkerResult("", usage=usage))
    try:
        item.wave.spending.next_try(one, used)
    except (GateClosedError, InterruptedWaveError) as stopped:
        return str(stopped)
    return ""


def _environment(item: ItemRun, request: AgentRequest, files: TestCheckout) -> dict[str, str]:
    """The variables that an agent gets in addition to those of its backend."""
    values = {
        RUN_VARIABLE: item.wave.mark,
        "TIDEGATE_ITEM": item.slug,
        "TIDEGATE_PHASE": request.shown_phase,
        "TIDEGATE_ATTEMPT": str(request.number),
        "TIDEGATE_WORKSPACE": str(files.path),
        "TIDEGATE_ARTIFACT_FILE": str(request.artifact or ""),
        "TIDEGATE_NONCE": request.nonce,
    }
    builds = dict[str, str]()
    for place in _build_folder(item):
        settings = item.wave.settings
        own = child_environment(settings.environ, settings.backend.env)
        builds = private_builds(own, files.path, item.work_dir, place)
    return {
        **builds,
        **files.environment,
        **{name: value for name, value in values.items() if value},
    }


def _build_folder(item: ItemRun) -> tuple[Path, ...]:
    """The folder of the item's builds: not in the clone, where they would be work."""
    if item.repository is None:
        return ()
    folder = item.repository.folder / "builds" / safe_slug(item.slug)
    folder.mkdir(parents=True, exist_ok=True)
    return (folder,)


def run_test_command(
    driver: AgentDriver, command: str | tuple[str, ...], folder: Path, limits: CommandLimits
) -> CommandResult:
    """Run a test. After an exception in the backend, nothing is known about the work."""
    given = command if isinstance(command, str) else list(command)
    try:
        done = driver.run_bounded(given, str(folder), limits)
        return replace(done, stdout=redacted(done.stdout), stderr=redacted(done.stderr))
    except Exception as error:  # noqa: BLE001 - as above
        return CommandResult(1, could_not_run=f"the backend's run_command failed: {error!r}")
