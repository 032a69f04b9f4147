"""The base of adapters for vendors' coding programs: models, program, checks, dispatch.

Each adapter adds the program's arguments, variables and login, and parses the program's output.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Unpack

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.cli.agent_reply import Reply, result_of
from driver.backends.cli.endings import not_run
from driver.backends.cli.local_driver import (
    DEFAULT_STALL_S,
    Ask,
    LocalDriver,
    LocalOptions,
    dispatch_folder,
)
from driver.execution.processes import Ending, Finished, could_not_run_reason
from driver.terminal.check_result import CheckResult, failed, failed_as, passed


class CliDriver(LocalDriver):
    """A coding program that works in the workspace. `program` is its usual name, `install` the
    product and its npm package, `offered` its known models beyond those of the roles."""

    program: ClassVar[str]
    install: ClassVar[tuple[str, str]]
    accuracy: ClassVar[float]
    notes: ClassVar[str]
    offered: ClassVar[tuple[str, ...]] = ()
    encloses = True

    def __init__(
        self,
        models: Mapping[str, str],
        *,
        extra_args: Sequence[str],
        program: str | Sequence[str],
        tier: int,
        **options: Unpack[LocalOptions],
    ) -> None:
        """`models` is by role. `program` is a name, a path or an argument prefix."""
        options.setdefault("stall_s", DEFAULT_STALL_S)
        super().__init__(**options)
        self.model_map = dict(models)
        self._extra_args = tuple(extra_args)
        self._program = (program,) if isinstance(program, str) else tuple(program)
        self._tier = tier

    @abstractmethod
    def arguments(self, request: WorkerRequest, folder: Path) -> tuple[str, ...]:
        """The arguments of the program. Writes the files that they name into `folder`."""

    @abstractmethod
    def read(self, request: WorkerRequest, finished: Finished, now: datetime) -> Reply:
        """Parse the output of a run, read at `now`."""

    @abstractmethod
    def login(self, ask: Ask) -> CheckResult | None:
        """Check the program's login; None if it needs none."""

    def variables(self, request: WorkerRequest) -> Mapping[str, str]:
        """Additional variables for the program."""
        del request
        return {}

    def key_problem(self) -> str | None:
        """The error message for a named key that is missing, or None."""
        return None

    def probe_capabilities(self) -> DriverCapabilities:
        """All abilities; a cost only if the program reports it. Does not use the network."""
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            worker_shell_access=True,
            structured_output=True,
            worktree_isolation=True,
            native_cost_tracking=self.reports_cost(),
            native_stall_detection=True,
            tool_use_accuracy=self.accuracy,
            recommended_verification_tier=self._tier,
            available_models=self.offered or tuple(dict.fromkeys(self.model_map.values())),
            notes=self.notes,
        )

    def command_line(self) -> tuple[str, ...]:
        """The command line of a plain request. The prompt comes on stdin."""
        return (*self._program, *self.arguments(WorkerRequest(prompt=""), Path()))

    def readiness_problems(self) -> tuple[str, ...]:
        """The error messages for a missing program or named key. A missing login shows at the first
        use."""
        missing = None if self._found() else self._missing()
        return tuple(filter(None, (missing, self.key_problem())))

    def examine(self) -> tuple[CheckResult, ...]:
        """Check program, version and login in the environment of an agent."""
        found = self._found()
        if found is None:
            return (failed_as("program", self._missing()),)
        ask = self.asking(found)
        if problem := self.key_problem():
            return (*examine_cli(found[0], ask), failed_as("key", problem))
        return examine_cli(found[0], ask, self.login)

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run the program once and parse its output."""
        found = self._found()
        if found is None:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, self._missing())
        if problem := self.key_problem():
            fault = ProviderFault(FaultKind.BAD_KEY, problem)
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, problem, fault)
        with dispatch_folder(request) as folder:
            argv = (*found, *self.arguments(request, folder))
            finished = self.run_agent(worker_id, request, argv, folder, self.variables(request))
            reply = self.read(request, finished, datetime.now().astimezone())
        result = result_of(worker_id, finished, reply, self.program)
        result.model = result.model or request.model
        if result.ok and request.result_schema and result.structured is None:
            result.ok, result.failure = False, FAILURE_AGENT
            result.error = f"{self.program} gave no structured answer although one was asked for"
        return result

    def _found(self) -> tuple[str, ...] | None:
        """The argument prefix that starts the program; None if it was not found."""
        path = self.find_program(self._program[0])
        return (path, *self._program[1:]) if path else None

    def _missing(self) -> str:
        """The error message for a program that was not found."""
        named = "" if self._program[0] == self.program else ", named in [backend] command,"
        product, package = self.install
        return (
            f"the program {self._program[0]!r}{named} was not found; install {product} "
            f"(npm install -g {package}), or set [backend] name to another backend"
        )


def examine_cli(
    program: str, ask: Ask, login: Callable[[Ask], CheckResult | None] | None = None
) -> tuple[CheckResult, ...]:
    """Check `program` with `--version`, and `login` if it runs."""
    done = ask("--version")
    if done.exit_code != 0:
        remedy = f"run {program} --version by hand, and reinstall it"
        return (failed("program", f"{program} does not run: {reason_of(done)}", remedy),)
    version = next(iter(done.stdout.split("\n")), "").strip()
    found = passed("program", f"{program}: {version[:80] or 'no version told'}")
    checked = None if login is None else login(ask)
    return (found,) if checked is None else (found, checked)


def knows(ask: Ask, *command: str) -> bool:
    """True if the program has this command. Without it, the program would take the words as a
    prompt and spend money."""
    return " ".join(command) in ask(*command, "--help").stdout


def reason_of(done: Finished) -> str:
    """The last output line of a program, or the reason why there is none."""
    if done.ending is not Ending.EXITED:
        return could_not_run_reason(done) or done.reason or "it did not end in time"
    words = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return words[-1][:200] if words else f"exit {done.exit_code}, without output"
