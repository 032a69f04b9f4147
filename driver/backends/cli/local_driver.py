"""The base of our backends: commands, ids, status, retries and the token meter.

Finds and starts agent programs: prompt on stdin, a chosen environment, bounded time. `endings`
names the end of the process. Each adapter parses the output.
"""

from __future__ import annotations

import math
import os
import shlex
import shutil
import signal
import tempfile
import threading
import time
import uuid
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, TypedDict

from driver.backend_api.driver import (
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    ROLE_WORKER,
    WORKER_DONE,
    WORKER_FAILED,
    WORKER_RUNNING,
    WORKER_UNKNOWN,
    AgentDriver,
    CommandLimits,
    CommandResult,
    WorkerRequest,
    WorkerResult,
    WorkerStatus,
)
from driver.backend_api.models import Price
from driver.backend_api.provider_fault import FaultKind, ProviderFault, ProviderLoad
from driver.backend_api.throttle import Throttle
from driver.backend_api.tries import TokenMeter, Tries
from driver.backend_api.usage import NOTHING_SPENT
from driver.backends.cli.endings import command_result, left_running, not_run
from driver.domain.results import BUILD
from driver.execution.processes import Command, Finished, Processes, child_environment
from driver.filesystem.safe_file_access import make_plain
from driver.homes.login import LoginFile
from driver.walls.system import program_places
from state_store.values.lazy_dataclass import replace
from tools.settings.load import process_environment

DEFAULT_TIMEOUT_S = 1800.0
DEFAULT_STALL_S = 600.0
DEFAULT_RETRIES = 2
ASK_TIMEOUT_S = 30.0
PROBE_S = 30.0  # an agent that works this long has reached its provider


Ask = Callable[..., Finished]


class LocalOptions(TypedDict, total=False):
    """The options that every backend passes to LocalDriver.

    `environ` is the parent's environment (default: this process's), `env` more names in it that
    agents may see. `timeout_s` bounds a dispatch with all its tries. An agent without output for
    `stall_s` is ended. `retries` more tries follow a transient fault of the provider. A program
    path is relative to `base` (default: the current folder).
    """

    environ: Mapping[str, str] | None
    env: Sequence[str]
    timeout_s: float | None
    stall_s: float | None
    retries: int
    base: Path | None


class LocalDriver(AgentDriver):
    """The base of our adapters. A subclass answers requests; this class runs and counts them.

    `parent_names` are the variables that the program needs to find its account and the network.
    `first_signal` asks the program to end. `asks_base_url` is True if the adapter sends requests to
    `[backend] base_url`.
    """

    parent_names: ClassVar[tuple[str, ...]] = ()
    first_signal: ClassVar[int] = signal.SIGTERM
    asks_base_url: ClassVar[bool] = False
    model_map: Mapping[str, str] = MappingProxyType({})  # by role

    def __init__(
        self,
        *,
        environ: Mapping[str, str] | None = None,
        env: Sequence[str] = (),
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        stall_s: float | None = None,
        retries: int = DEFAULT_RETRIES,
        base: Path | None = None,
    ) -> None:
        """Take the options that LocalOptions describes."""
        self.processes = Processes()
        self.environ = process_environment() if environ is None else dict(environ)
        self.env_names = tuple(env)
        self.timeout_s = timeout_s
        self.stall_s = stall_s
        self.base = base or Path.cwd()
        self.named_login: tuple[str, ...] = ()  # in the home, by the settings
        self._throttle = Throttle(retries=retries, probe_s=PROBE_S)
        self._ends: dict[str, float] = {}
        self._meter = TokenMeter()
        self.prices: Mapping[str, Price] = {}  # the user's prices, which override the table
        self._states: dict[str, str] = {}
        self._survivors: dict[str, tuple[str, ...]] = {}
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def login_files(self) -> tuple[LoginFile, ...]:
        """The files of the user's home that an agent gets copies of."""
        return tuple(self.login_file(name) for name in self.named_login)

    def login_file(self, name: str, *, is_renewed: bool = False) -> LoginFile:
        """The file `name` of the user's home."""
        return LoginFile(name, self.home / name, is_renewed=is_renewed)

    @property
    def home(self) -> Path:
        """The user's home."""
        return Path(self.environ.get("HOME") or Path.home())

    @abstractmethod
    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run one agent to its end, once. The caller fills in `status` and `tokens_spent`.

        A provider's fault goes into `fault`, so that the caller can wait and try again.
        """

    def resolve_model(self, role: str) -> str:
        """The model of a role, or else the worker's; "" if none is named."""
        return self.model_map.get(role) or self.model_map.get(ROLE_WORKER, "")

    def dispatch_worker(self, request: WorkerRequest) -> WorkerResult:
        """Run one agent to its end under a new id. More tries follow a transient fault of the
        provider; their use is added up."""
        worker_id = f"{self.name}-{uuid.uuid4().hex}"
        self._mark(worker_id, WORKER_RUNNING)
        state = WORKER_FAILED
        try:
            result = self._answered(worker_id, Tries(request))
            state = WORKER_DONE if result.ok else WORKER_FAILED
        finally:
            self._mark(worker_id, state)
        if result.failure == FAILURE_COULD_NOT_RUN and self._throttle.given_up:
            result.fault = ProviderFault(FaultKind.GIVEN_UP, str(result.error))
        result.status = state
        result.survivors = self._survivors.pop(worker_id, ())
        result.tokens_spent = result.usage.total_tokens
        return result

    def _answered(self, worker_id: str, tries: Tries) -> WorkerResult:
        limit_s = tries.timeout_s or self.timeout_s or math.inf
        self._ends[worker_id] = until = time.monotonic() + limit_s

        def once() -> WorkerResult:
            result = self.answer(worker_id, tries.next_request())
            self._meter.add(result.usage)
            tries.add(result)
            return result

        try:
            self._throttle.call(
                once,
                tries.fault_to_wait_for,
                self._cancelled,
                until=until,
                may_repeat=tries.may_repeat,
            )
        finally:
            del self._ends[worker_id]
        if tries.result is not None:
            return tries.result
        self._meter.add(NOTHING_SPENT)
        if self._cancelled.is_set():
            return not_run(worker_id, FAILURE_CANCELLED, "cancelled before it started")
        within = "" if self._throttle.given_up else f" within {limit_s:g} s"
        why = f"its provider took no more requests{within}, for all items"
        return not_run(worker_id, FAILURE_COULD_NOT_RUN, why)

    def worker_status(self, worker_id: str) -> WorkerStatus:
        """The state of a dispatch. A running dispatch is stalled after a long silence."""
        with self._lock:
            state = self._states.get(worker_id, WORKER_UNKNOWN)
        if state != WORKER_RUNNING:
            return WorkerStatus(worker_id, state)
        ages = [run.last_output_age_s for run in self.processes.running() if run.name == worker_id]
        age_s = ages[0] if ages else 0.0
        stalled = age_s > (self.stall_s or DEFAULT_STALL_S)
        detail = "" if ages else "between two tries, or waiting for its provider"
        return WorkerStatus(worker_id, state, stalled=stalled, age_s=age_s, detail=detail)

    def run_command(
        self, command: Any, cwd: str | None = None, shell: bool | None = None
    ) -> CommandResult:
        """Run a string in the shell, or a list of arguments, without limits."""
        return self.run_bounded(_as_argv(command, shell), cwd or ".", CommandLimits())

    def run_bounded(self, command: Any, cwd: str, limits: CommandLimits) -> CommandResult:
        """Run a command under `limits`."""
        env = limits.environment
        started = Command(
            argv=_as_argv(command, None),
            cwd=Path(cwd),
            env=child_environment(self.environ) if env is None else env,
            timeout_s=limits.timeout_s,
            output=limits.output,
        )
        inside = limits.enclosure
        if inside is None:
            return command_result(self.processes.run(started))
        return replace(command_result(inside.run(self.processes, started)), sandbox=inside.name)

    def get_tokens_spent(self) -> int | None:
        """Tokens of all metered dispatches so far; None if there was none."""
        return self._meter.known

    def attend(self, say: Callable[[str], None], give_up_s: float) -> None:
        """Begin a wave: report the provider's state to `say`, and give up after `give_up_s`
        seconds."""
        self._throttle.attend(say, give_up_s)

    def provider_load(self) -> ProviderLoad | None:
        """The load of the provider since `attend`."""
        return self._throttle.load()

    def get_unmetered_dispatches(self) -> int:
        """The number of ended dispatches with unknown use."""
        return self._meter.unmetered

    def cancel(self) -> None:
        """End all running dispatches and commands soon, and start no more."""
        self._cancelled.set()
        self.processes.cancel()

    def run_agent(
        self,
        worker_id: str,
        request: WorkerRequest,
        argv: tuple[str, ...],
        folder: Path,
        variables: Mapping[str, str],
    ) -> Finished:
        """Run an agent program in the workspace to its end. Its whole output goes into `folder`.
        The request's variables override the adapter's `variables`."""
        left_s = max(0.0, self._ends[worker_id] - time.monotonic())
        names = (*self.parent_names, *self.env_names)
        command = Command(
            argv=argv,
            cwd=Path(request.workdir),
            env=child_environment(self.environ, names, {**variables, **request.environment}),
            timeout_s=left_s if math.isfinite(left_s) else None,
            silence_s=self.stall_s,
            stdin=request.full_prompt.encode("utf-8", "replace"),
            output=folder / "agent",
            first_signal=self.first_signal,
        )
        if request.enclosure is None:
            finished = self.processes.run(command, name=worker_id)
        else:
            own = program_places(argv, self.home)
            inside = request.enclosure.reading(own).lending(self.login_files())
            finished = inside.run(self.processes, command, name=worker_id)
        self._survivors[worker_id] = (*self._survivors.get(worker_id, ()), *left_running(finished))
        return finished

    def asking(self, program: tuple[str, ...]) -> Ask:
        """A function that runs `program` with arguments as an agent would run, but without input,
        in an empty folder and for a short time."""
        env = child_environment(self.environ, (*self.parent_names, *self.env_names))

        def ask(*words: str) -> Finished:
            with tempfile.TemporaryDirectory(prefix="tidegate-", ignore_cleanup_errors=True) as cwd:
                return self.processes.run(
                    Command((*program, *words), Path(cwd), env, ASK_TIMEOUT_S)
                )

        return ask

    def find_program(self, program: str) -> str | None:
        """The absolute path of `program`: relative to our base if it names a folder, else on
        PATH."""
        if Path(program).name != program:
            found = shutil.which(self.base / program)
        else:
            found = shutil.which(program, path=self.environ.get("PATH", os.defpath))
        return str(Path(found).absolute()) if found else None

    def _mark(self, worker_id: str, state: str) -> None:
        with self._lock:
            self._states[worker_id] = state


@contextmanager
def dispatch_folder(request: WorkerRequest) -> Iterator[Path]:
    """The request's scratch folder, or else a temporary folder for this dispatch. Raises
    NotPlainError if an earlier agent put a link in its place."""
    if request.scratch is not None:
        make_plain(request.scratch)
        yield request.scratch
        return
    with tempfile.TemporaryDirectory(prefix="tidegate-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def item_of(request: WorkerRequest) -> str:
    """The item's slug, from the engine's variable or a label such as `dispatch:<slug>`."""
    named = request.environment.get("TIDEGATE_ITEM")
    return named or (request.label or "").removeprefix("dispatch:")


def phase_of(request: WorkerRequest) -> str:
    """The phase, from the engine's variable, else from the request, else "build"."""
    return request.environment.get("TIDEGATE_PHASE") or request.phase or BUILD


def _as_argv(command: Any, shell: bool | None) -> tuple[str, ...] | str:
    if isinstance(command, str):
        return tuple(shlex.split(command)) if shell is False else command
    argv = tuple(str(part) for part in command)
    return shlex.join(argv) if shell else argv
