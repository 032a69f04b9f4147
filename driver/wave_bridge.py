"""Between an item and a backend: what the backend is asked, and what its answer means.

Two ways in: `dispatch` for the engine, and the source's `build_manifest_item` and `dispatch_item`
on plain dicts for callers of their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from driver.agent_driver import (
    EFFORT_NORMAL,
    FAILURE_COULD_NOT_RUN,
    ROLE_VERIFY,
    ROLE_WORKER,
    AgentDriver,
    CommandLimits,
    CommandResult,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
    WorkerStatus,
)
from driver.folders import remove_tree
from driver.ground import Place
from driver.outcome import BUILD, REPAIR, REVIEW
from driver.runs import RUN_VARIABLE
from driver.spending import own_prices, sound
from driver.verification_policy import verification_policy
from driver.wave_context import Performer, Planned, Wave

ROUTE_HARNESS = "harness"
ROUTE_DRIVER = "driver"


TEXT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """What an agent is to be sent. `phase` is the word of books and journal, `told` what the agent
    hears where that is another; `number` counts its dispatches, `attempts` those of the item where
    that is another number; `retries` are further dispatches of one that did not come to its end."""

    number: int
    phase: str
    prompt: str
    performer: Performer
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


@dataclasses.dataclass(frozen=True, slots=True)
class ReviewCall:
    """One call of a reviewer; its answer has to fit `schema` and repeat `nonce`."""

    number: int
    prompt: str
    nonce: str
    schema: Mapping[str, Any]
    effort: str | None = None
    timeout_s: float | None = None


class _ForeignDriver(AgentDriver):
    """A backend that only looks like one: its five operations, and answers in our types."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name = getattr(inner, "name", type(inner).__name__)

    def probe_capabilities(self) -> DriverCapabilities:
        return _as_ours(DriverCapabilities, self.inner.probe_capabilities())

    def dispatch_worker(self, request: WorkerRequest) -> WorkerResult:
        return _as_ours(WorkerResult, self.inner.dispatch_worker(request))

    def worker_status(self, worker_id: str) -> WorkerStatus:
        return _as_ours(WorkerStatus, self.inner.worker_status(worker_id))

    def run_command(
        self, command: Any, cwd: str | None = None, shell: bool | None = None
    ) -> CommandResult:
        return _as_ours(CommandResult, self.inner.run_command(command, cwd=cwd, shell=shell))

    def run_bounded(self, command: Any, cwd: str, limits: CommandLimits) -> CommandResult:
        del limits
        return _as_ours(CommandResult, self.inner.run_command(command, cwd=cwd))

    def resolve_model(self, role: str) -> str:
        return str(self.inner.resolve_model(role))

    def get_tokens_spent(self) -> int | None:
        tell = getattr(self.inner, "get_tokens_spent", None)
        return tell() if tell is not None else None


Ours = TypeVar("Ours")


def _as_ours(kind: type[Ours], theirs: Any) -> Ours:
    """`theirs` if it is a `kind`, else a `kind` with what theirs has of its fields."""
    if isinstance(theirs, kind):
        return theirs
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(theirs, name) for name in names if hasattr(theirs, name)})


def adapted(driver: Any) -> AgentDriver:
    """`driver` itself, or, when it is no AgentDriver, one that asks its five operations."""
    return driver if isinstance(driver, AgentDriver) else _ForeignDriver(driver)


def dispatch(planned: Planned, place: Place, wave: Wave, call: Call) -> WorkerResult:
    """Run one agent in the item's place. A backend that raises gave no answer at all."""
    request = _request(planned, wave, call)
    request.workdir = str(place.workdir)
    request.environment = {**request.environment, "TIDEGATE_WORKSPACE": str(place.top)}
    return _sent(call.performer.driver, request, wave)


def dispatch_reader(planned: Planned, copy: Path, wave: Wave, call: Call) -> WorkerResult:
    """Have an agent look at a copy of the item's work and answer with a text. `artifact` is the
    file that it may write that to; a backend that sees no files answers with an object."""
    request = _request(planned, wave, call)
    request.workdir, request.role = str(copy / planned.home.work_dir), ROLE_VERIFY
    request.environment = {
        **request.environment,
        "TIDEGATE_WORKSPACE": str(copy),
        **({"TIDEGATE_ARTIFACT_FILE": str(call.artifact)} if call.artifact else {}),
    }
    if not call.performer.driver.probe_capabilities().worker_filesystem_access:
        request.result_schema = dict(TEXT_SCHEMA)
    return _sent(call.performer.driver, request, wave)


def _request(planned: Planned, wave: Wave, call: Call) -> WorkerRequest:
    item = planned.item
    return WorkerRequest(
        prompt=call.prompt,
        owned_files=item.owns_files,
        model=call.model,
        label=f"dispatch:{item.slug}",
        phase=item.phase,
        effort=call.effort or item.effort,
        scratch=_fresh_folder(wave.scratch(item.slug) / call.folder),
        environment={
            RUN_VARIABLE: wave.mark,
            "TIDEGATE_ITEM": item.slug,
            "TIDEGATE_PHASE": call.heard,
            "TIDEGATE_ATTEMPT": str(call.number),
        },
        timeout_s=call.timeout_s,
    )


def dispatch_reviewer(
    planned: Planned, copy: Path, reviewer: Performer, wave: Wave, call: ReviewCall
) -> WorkerResult:
    """Have a reviewer read a copy of the item's work. One that raises gave no answer at all."""
    item = planned.item
    scratch = wave.scratch(item.slug) / f"review-{call.number}"
    remove_tree(scratch)  # whatever is there now is nobody's verdict on this call
    request = WorkerRequest(
        prompt=call.prompt,
        owned_files=item.owns_files,
        workdir=str(copy / planned.home.work_dir),
        model=reviewer.model,
        role=ROLE_VERIFY,
        label=f"review:{item.slug}",
        phase=REVIEW,
        result_schema=dict(call.schema),
        effort=call.effort or item.effort,
        timeout_s=call.timeout_s,
        scratch=_fresh_folder(scratch),
        environment={
            RUN_VARIABLE: wave.mark,
            "TIDEGATE_ITEM": item.slug,
            "TIDEGATE_PHASE": REVIEW,
            "TIDEGATE_ATTEMPT": str(call.number),
            "TIDEGATE_WORKSPACE": str(copy),
            "TIDEGATE_NONCE": call.nonce,
        },
    )
    return _sent(reviewer.driver, request, wave)


def _sent(driver: AgentDriver, request: WorkerRequest, wave: Wave) -> WorkerResult:
    try:
        result = _as_ours(WorkerResult, driver.dispatch_worker(request))
        named = result.model or request.model or driver.resolve_model(request.role)
        result.usage = sound(result, named, own_prices(wave.settings))
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


def _fresh_folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def build_manifest_item(driver: AgentDriver, item: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of `item` with its model and the policy of the backend's tier as literal fields.

    Raises ValueError, naming the backend, for a tier that has no policy.
    """
    caps = driver.probe_capabilities()
    try:
        policy = verification_policy(caps)
    except ValueError as error:
        raise ValueError(f"backend {caps.name} has no usable tier: {error}") from error
    return {
        **item,
        "model": driver.resolve_model(ROLE_WORKER) or None,
        "verificationTier": caps.recommended_verification_tier,
        "repairCap": policy["repair_cap"],
        "requireAdversarialReview": policy["require_adversarial_review"],
        "spotCheckFrac": policy["spot_check_frac"],
        "validateAllJson": policy["validate_all_json"],
    }


def dispatch_item(
    driver: AgentDriver, item: Mapping[str, Any], workdir: str | None = None
) -> dict[str, Any]:
    """Run one agent on a plain item, then its test, in a folder as it is: no clone, no ship.

    Keys of the answer: route, ok, testExit, filesWritten, error, workerId, verified, and reason
    when there is no test command. `ok` and `verified` come from exit code 0 and nothing else.
    """
    answer: dict[str, Any] = {
        "route": _route(driver),
        "ok": False,
        "testExit": None,
        "filesWritten": [],
        "error": None,
        "workerId": None,
        "verified": False,
    }
    if not item.get("testCmd"):
        return {**answer, "error": "no testCmd: nothing can be proven", "reason": "no_test_command"}
    folder = workdir or item.get("workdir") or item.get("workDir") or "."
    try:
        return {**answer, **_dispatch_and_test(driver, item, folder)}
    except Exception as error:  # noqa: BLE001 - the source's contract: an exception is an answer
        return {**answer, "error": f"dispatch_item internal error: {error}"}


def _dispatch_and_test(driver: AgentDriver, item: Mapping[str, Any], folder: str) -> dict[str, Any]:
    result = driver.dispatch_worker(_plain_request(item, folder))
    said = {"workerId": result.worker_id, "filesWritten": list(result.files_written)}
    if not result.ok:
        return {**said, "error": f"dispatch_worker failed: {result.error}"}
    test = driver.run_command(item["testCmd"], cwd=folder)
    green = _is_green(test)
    error = None if green else f"test failed with exit {test.exit_code}"
    return {**said, "testExit": test.exit_code, "ok": green, "verified": green, "error": error}


def _plain_request(item: Mapping[str, Any], folder: str) -> WorkerRequest:
    return WorkerRequest(
        prompt=str(item.get("prompt", "")),
        owned_files=tuple(item.get("ownsFiles") or ()),
        workdir=folder,
        model=item.get("model"),
        label=f"dispatch:{item.get('slug')}",
        phase=item.get("phase"),
        effort=item.get("effort") or EFFORT_NORMAL,
        environment={"TIDEGATE_ITEM": str(item.get("slug")), "TIDEGATE_PHASE": BUILD},
    )


def _route(driver: AgentDriver) -> str:
    files = driver.probe_capabilities().worker_filesystem_access
    return ROUTE_HARNESS if files else ROUTE_DRIVER


def _is_green(test: CommandResult) -> bool:
    return test.exit_code == 0 and test.ok
