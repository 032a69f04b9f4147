"""The contract of a backend: five operations and the data they exchange. No I/O.

A backend outside this repository only has to implement the five abstract methods. The other methods
have defaults, so time limits, cancelling and readiness are optional.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from driver.backend_api.enclosure import Enclosure
from driver.backend_api.provider_fault import ProviderFault, ProviderLoad
from driver.terminal.check_result import CheckResult, failed_as, passed
from state_store.values.lazy_dataclass import dataclass, field

WORKER_RUNNING = "running"
WORKER_DONE = "done"
WORKER_STALLED = "stalled"
WORKER_FAILED = "failed"
WORKER_UNKNOWN = "unknown"
WORKER_STATES = (WORKER_RUNNING, WORKER_DONE, WORKER_STALLED, WORKER_FAILED, WORKER_UNKNOWN)

ROLE_WORKER = "worker"
ROLE_SETUP = "setup"
ROLE_VERIFY = "verify"
MODEL_ROLES = (ROLE_WORKER, ROLE_SETUP, ROLE_VERIFY)

EFFORT_QUICK = "quick"
EFFORT_NORMAL = "normal"
EFFORT_THOROUGH = "thorough"
EFFORT_LEVELS = (EFFORT_QUICK, EFFORT_NORMAL, EFFORT_THOROUGH)

# The reason why a dispatch gave no usable work; "" if it gave some. Only COULD_NOT_RUN and
# CANCELLED are not the agent's fault, so only they never cost a repair round.
FAILURE_NONE = ""
FAILURE_AGENT = "agent_failed"
FAILURE_TIMED_OUT = "timed_out"
FAILURE_REFUSED = "refused"
FAILURE_COULD_NOT_RUN = "could_not_run"
FAILURE_CANCELLED = "cancelled"


# Values of `[backend] project_settings`.
INSTRUCTIONS = "instructions"
ALL_SETTINGS = "all"


@dataclass(frozen=True)
class DriverCapabilities:
    """The abilities of a backend. The tier decides how much of its work is checked again. A backend
    that `replays` reports recorded usage and spends nothing."""

    name: str
    parallel_dispatch: bool = False
    worker_filesystem_access: bool = False
    worker_shell_access: bool = False
    structured_output: bool = False
    worktree_isolation: bool = False
    native_cost_tracking: bool = False
    native_stall_detection: bool = False
    tool_use_accuracy: float = 0.0
    recommended_verification_tier: int = 4
    available_models: tuple[str, ...] = ()
    notes: str = ""
    replays: bool = False

    def summary(self) -> str:
        """Describe the abilities in one ASCII line for people."""
        known = {
            "parallel": self.parallel_dispatch,
            "files": self.worker_filesystem_access,
            "shell": self.worker_shell_access,
            "structured": self.structured_output,
            "cost": self.native_cost_tracking,
        }
        abilities = [label for label, present in known.items() if present]
        accuracy = f"accuracy {self.tool_use_accuracy:.2f}, " if self.tool_use_accuracy else ""
        models = f"models {', '.join(self.available_models)}, " if self.available_models else ""
        line = (
            f"{self.name}: tier {self.recommended_verification_tier}, {accuracy}{models}"
            f"abilities {', '.join(abilities) or 'none'}"
        )
        return line.encode("ascii", "replace").decode("ascii")


@dataclass(frozen=True)
class Usage:
    """The billed use of a dispatch. None means unknown, never zero.

    `undivided_tokens` is the total of a backend that does not separate input from output.
    `least_tokens` and `least_usd` are the known part of an unknown total.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    undivided_tokens: int | None = None
    least_tokens: int = 0
    least_usd: float = 0.0

    @property
    def total_tokens(self) -> int | None:
        """Input plus output; None if either is unknown."""
        if self.input_tokens is None or self.output_tokens is None:
            return self.undivided_tokens
        return self.input_tokens + self.output_tokens

    @property
    def known_tokens(self) -> int:
        """The total tokens, or their known part."""
        if (total := self.total_tokens) is not None:
            return total
        return max(self.least_tokens, (self.input_tokens or 0) + (self.output_tokens or 0))

    @property
    def known_usd(self) -> float:
        """The cost, or its known part."""
        return self.least_usd if self.cost_usd is None else self.cost_usd

    def to_json(self) -> dict[str, Any]:
        """The JSON form in reports, journal and events; null is unknown."""
        return {
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "totalTokens": self.total_tokens,
            "costUsd": in_micro_usd(self.cost_usd),
        }

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Usage:
        """The usage in its JSON form. Raises KeyError for a missing key."""
        known = ("inputTokens", "outputTokens", "costUsd", "totalTokens")
        return cls(*(record[name] for name in known))


def in_micro_usd(amount: float | None) -> float | None:
    """An amount in USD as people read it: without the digits that only binary fractions have."""
    return None if amount is None else round(amount, 6)


@dataclass
class WorkerRequest:
    """The request of a dispatch. `owned_files` are relative to `workdir`, the agent's folder.

    `scratch` is a folder outside the workspace for the files of this dispatch (full output, usage
    file). `environment` are variables for the agent, such as TIDEGATE_ITEM. `timeout_s` is the time
    limit of this dispatch, if the backend supports one.

    `between_tries` is called with the use of a try that may have cost something, before the backend
    starts another by itself. It books this use, so the result must not contain it again. It returns
    the reason why no other try may start, "" if one may.

    `instructions` are the project's own, as its base commit has them. `commands` are those that the
    agent may run without asking, at least the item's test. `is_enclosed` is true if the walls keep
    the agent from everything outside of its workspace, so that it may do what it likes inside.
    `whole_project` lets the program load the project's hooks, servers of tools and settings too.
    `enclosure` has the walls for the program.
    """

    prompt: str
    owned_files: tuple[str, ...] = ()
    workdir: str = "."
    model: str | None = None
    role: str = ROLE_WORKER
    label: str | None = None
    phase: str | None = None
    result_schema: dict[str, Any] | None = None
    effort: str = EFFORT_NORMAL
    scratch: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None
    between_tries: Callable[[Usage], str] | None = None
    instructions: str = ""
    commands: tuple[str, ...] = ()
    is_enclosed: bool = False
    enclosure: Enclosure | None = None
    whole_project: bool = False

    @property
    def full_prompt(self) -> str:
        """The prompt below the project's instructions."""
        return "\n\n".join(filter(None, (self.instructions, self.prompt)))


@dataclass
class WorkerResult:
    """The backend's report of a dispatch. `ok` never means that tests passed.

    `fault` is set if the provider gave no answer. `survivors` are the processes, as `COMMAND
    (PID)`, that the agent left running. `limit` is the setting, such as `[backend] max_turns`,
    whose limit ended the agent.
    """

    worker_id: str
    status: str = WORKER_UNKNOWN
    ok: bool = False
    structured: dict[str, Any] | None = None
    text: str = ""
    files_written: tuple[str, ...] = ()
    tokens_spent: int | None = None
    error: str | None = None
    verified: bool | None = None
    usage: Usage = field(default_factory=Usage)
    model: str | None = None
    failure: str = FAILURE_NONE
    fault: ProviderFault | None = None
    survivors: tuple[str, ...] = ()
    limit: str = ""


@dataclass
class WorkerStatus:
    """The state of a dispatch; `age_s` is the time since its last sign of life."""

    worker_id: str
    state: str = WORKER_UNKNOWN
    stalled: bool = False
    age_s: float = 0.0
    detail: str = ""


@dataclass
class CommandResult:
    """The result of a command. `could_not_run` and `timed_out` are not a red test.

    `survivors` are the processes, as `COMMAND (PID)`, that outlived a command and were then killed.
    `over_limit` names the limit that ended it, of memory, disk and the like; `limit_hint` names one
    that its output mentions. `sandbox` is the level of the walls that it ran in.
    """

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    cancelled: bool = False
    could_not_run: str = ""
    duration_s: float = 0.0
    output_file: str | None = None
    survivors: tuple[str, ...] = ()
    over_limit: str = ""
    limit_hint: str = ""
    sandbox: str = "none"

    @property
    def ok(self) -> bool:
        """True if the command ran to its end with exit code 0."""
        ended_early = self.timed_out or self.cancelled or bool(self.could_not_run)
        return self.exit_code == 0 and not ended_early


@dataclass(frozen=True)
class CommandLimits:
    """Limits of one test or set-up command. `environment` is the child's whole environment. A
    backend that leaves the `enclosure` out runs the command outside of all walls."""

    timeout_s: float | None = None
    environment: Mapping[str, str] | None = None
    output: Path | None = None
    enclosure: Enclosure | None = None


class AgentDriver(ABC):
    """A backend. A backend outside this repository only has to implement the five abstract
    methods. `project_settings` is the setting of `[backend]`. `encloses` is True if every program
    of an agent runs inside of the request's enclosure, and `only_answers` if an agent starts none,
    and reads no file of its clone but those that its item owns."""

    name: str = "abstract"
    encloses: bool = False
    only_answers: bool = False
    project_settings: str = INSTRUCTIONS

    @abstractmethod
    def probe_capabilities(self) -> DriverCapabilities:
        """The abilities of this backend. Does not use the network."""

    @abstractmethod
    def dispatch_worker(self, request: WorkerRequest) -> WorkerResult:
        """Run one agent to its end and report how it ended."""

    @abstractmethod
    def worker_status(self, worker_id: str) -> WorkerStatus:
        """The state of a dispatch; an unknown id has the state "unknown"."""

    @abstractmethod
    def run_command(
        self, command: Any, cwd: str | None = None, shell: bool | None = None
    ) -> CommandResult:
        """Run a test or set-up command, a string for the shell or a list of arguments."""

    @abstractmethod
    def resolve_model(self, role: str) -> str:
        """The model for a role of `MODEL_ROLES`."""

    def get_tokens_spent(self) -> int | None:
        """Tokens of all dispatches so far; None if unknown."""
        return None

    def reports_cost(self) -> bool:
        """True if this backend reports the cost of each dispatch in USD, for every model."""
        return False

    def describe(self) -> str:
        """Describe this backend in one ASCII line for people."""
        return self.probe_capabilities().summary()

    def run_bounded(self, command: Any, cwd: str, limits: CommandLimits) -> CommandResult:
        """Run a command under `limits`. A backend without limits ignores them."""
        del limits
        return self.run_command(command, cwd=cwd)

    def command_line(self) -> tuple[str, ...]:
        """The program that a dispatch starts, for people; empty if there is none."""
        return ()

    def readiness_problems(self) -> tuple[str, ...]:
        """The problems that keep this backend from running here, each as a sentence."""
        return ()

    def examine(self) -> tuple[CheckResult, ...]:
        """Check program, login and endpoint without spending anything.

        The default reports the readiness problems. Names are single words such as "program".
        """
        problems = self.readiness_problems()
        found = tuple(failed_as("ready", problem) for problem in problems)
        return found or (passed("ready", self.describe()),)

    def attend(self, say: Callable[[str], None], give_up_s: float) -> None:
        """Begin a wave: call `say` when the provider stops or resumes taking calls. After
        `give_up_s` seconds without calls, every answer is a fault of kind GIVEN_UP."""
        del say, give_up_s

    def provider_load(self) -> ProviderLoad | None:
        """The provider's load since `attend`; None if unknown."""
        return None

    def cancel(self) -> None:
        """End all running dispatches and commands soon, and start no more."""
        return
