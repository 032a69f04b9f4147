"""The backend that runs Claude Code's `claude -p` in the item's workspace.

Owns its command line, its environment and how its ending is read; `claude_stream` reads its words.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from driver.agent_cli import (
    DEFAULT_RETRIES,
    DEFAULT_STALL_S,
    DEFAULT_TIMEOUT_S,
    NOTHING_SPENT,
    AgentCall,
    LocalDriver,
    broken_off,
    dispatch_folder,
    not_run,
    printed_lines,
    silence_of,
    tail,
)
from driver.agent_driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_NONE,
    ROLE_SETUP,
    ROLE_VERIFY,
    ROLE_WORKER,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
)
from driver.check import Check, failed_as
from driver.claude_stream import Reply, read_stream
from driver.cli_checks import examine_cli, login_of_claude
from driver.process import Ending, Finished, child_environment
from state_store.errors import InputError

PROGRAM = "claude"
MODELS = {ROLE_WORKER: "haiku", ROLE_SETUP: "sonnet", ROLE_VERIFY: "haiku"}
DEFAULT_MAX_TURNS = 50
TOOLS = "Read,Write,Edit,Bash"
TOOLS_OF_A_READER = "Read,Grep,Glob"  # who judges work must not be able to change it

# What the CLI needs, beside what every child gets, to find its account and the network. IS_SANDBOX
# is not here: with it the CLI drops its own refusal to run unguarded as root.
PARENT_NAMES = (
    "CLAUDE_CONFIG_DIR",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
)

# Left alone, a dead server keeps the CLI busy for up to 50 minutes; the wave waits better, because
# it waits once for all its agents. One retry stays, so a hiccup does not cost a long session.
BOUNDS = {
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "API_TIMEOUT_MS": "180000",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


class ClaudeCodeDriver(LocalDriver):
    """Runs Claude Code once per dispatch; file edits inside the workspace are allowed."""

    name = "claude-code"

    def __init__(  # noqa: PLR0913 - keyword settings of one backend
        self,
        model_map: Mapping[str, str] | None = None,
        *,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        stall_s: float | None = DEFAULT_STALL_S,
        retries: int = DEFAULT_RETRIES,
        env: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        extra_args: Sequence[str] = (),
        max_turns: int = DEFAULT_MAX_TURNS,
        program: str | Sequence[str] = PROGRAM,
        tier: int = 1,
        base: Path | None = None,
    ) -> None:
        """`program` is a name, a path or a whole argument prefix; `base` as in CommandDriver.

        Raises InputError for `max_turns` below 1.
        """
        if max_turns < 1:  # the CLI silently takes 0 for "no limit"
            raise InputError(f"[backend] max_turns must be at least 1, not {max_turns}")
        super().__init__(
            environ=environ, env=env, timeout_s=timeout_s, stall_s=stall_s, retries=retries
        )
        self._models = {**MODELS, **(model_map or {})}
        self._extra_args = tuple(extra_args)
        self._max_turns = max_turns
        self._program = (program,) if isinstance(program, str) else tuple(program)
        self._tier = tier
        self._base = base or Path.cwd()

    def probe_capabilities(self) -> DriverCapabilities:
        """Everything, without contacting anything."""
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            worker_shell_access=True,
            structured_output=True,
            worktree_isolation=True,
            native_cost_tracking=True,
            native_stall_detection=True,
            tool_use_accuracy=0.99,
            recommended_verification_tier=self._tier,
            available_models=("haiku", "sonnet", "opus"),
            notes="claude -p; models without a known price are reckoned by the CLI like Opus",
        )

    def reports_cost(self) -> bool:
        """Every answer of the program has its own figure."""
        return True

    def resolve_model(self, role: str) -> str:
        """The model for a role; an unknown role gets the worker's."""
        return self._models.get(role, self._models[ROLE_WORKER])

    def command_line(self) -> tuple[str, ...]:
        """The call for a request that asks for nothing special; the prompt comes on stdin."""
        return (*self._program, *self._arguments(WorkerRequest(prompt="")))

    def readiness_problems(self) -> tuple[str, ...]:
        """Says so when the program is missing; whether it is logged in shows at the first use."""
        found = self.find_program(self._program[0], self._base)
        return () if found else (self._missing(),)

    def examine(self) -> tuple[Check, ...]:
        """The program, its version and its login, as an agent would find them."""
        found = self.find_program(self._program[0], self._base)
        if found is None:
            return (failed_as("program", self._missing()),)
        ask = self.asking((found, *self._program[1:]), PARENT_NAMES)
        return examine_cli(found, ask, login_of_claude)

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run the CLI once and read its result line."""
        found = self.find_program(self._program[0], self._base)
        if found is None:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, self._missing())
        with dispatch_folder(request) as folder:
            call = AgentCall(
                argv=(found, *self._program[1:], *self._arguments(request)),
                folder=folder,
                names=PARENT_NAMES,
                extra=self._bounds(),
                # SIGINT makes it end its running tool and often still tell what it cost.
                first_signal=signal.SIGINT,
            )
            finished = self.run_agent(worker_id, request, call)
            reply = read_stream(printed_lines(finished), datetime.now().astimezone())
        return _result(worker_id, request, finished, reply)

    def _arguments(self, request: WorkerRequest) -> tuple[str, ...]:
        schema = request.result_schema
        return (
            *("-p", "--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "acceptEdits"),
            *("--tools", TOOLS_OF_A_READER if request.role == ROLE_VERIFY else TOOLS),
            *("--model", request.model or self.resolve_model(request.role)),
            *("--max-turns", str(self._max_turns)),
            *("--setting-sources", "user", "--strict-mcp-config", "--no-session-persistence"),
            *(("--json-schema", json.dumps(schema)) if schema else ()),
            *self._extra_args,
        )

    def _bounds(self) -> dict[str, str]:
        given = child_environment(self.environ, self.env_names)
        return {name: value for name, value in BOUNDS.items() if name not in given}

    def _missing(self) -> str:
        named = "" if self._program[0] == PROGRAM else ", named in [backend] command,"
        return (
            f"the program {self._program[0]!r}{named} was not found; install Claude Code "
            "(npm install -g @anthropic-ai/claude-code), or set [backend] name to another backend"
        )


def _result(
    worker_id: str, request: WorkerRequest, finished: Finished, reply: Reply
) -> WorkerResult:
    failure, error = broken_off(finished) or _judge(request, finished, reply)
    never_ran = finished.ending is Ending.COULD_NOT_START
    return WorkerResult(
        worker_id,
        ok=failure == FAILURE_NONE,
        structured=reply.structured,
        text=reply.text,
        error=error or None,
        usage=NOTHING_SPENT if never_ran else reply.usage,
        model=reply.model or request.model,
        failure=failure,
        fault=silence_of(finished) or (reply.fault if failure == reply.failure else None),
    )


def _judge(request: WorkerRequest, finished: Finished, reply: Reply) -> tuple[str, str]:
    if not reply.finished:
        failure = FAILURE_AGENT if reply.started else FAILURE_COULD_NOT_RUN
        said = tail(finished.stderr) or tail(finished.stdout) or "no output"
        return failure, f"{reply.error} (exit {finished.exit_code}): {said}"
    if reply.failure != FAILURE_NONE:
        return reply.failure, f"claude: {reply.error}"
    if finished.exit_code != 0:
        return FAILURE_AGENT, f"claude exited with {finished.exit_code}: {tail(finished.stderr)}"
    if request.result_schema and reply.structured is None:
        return FAILURE_AGENT, "claude gave no structured answer although one was asked for"
    return FAILURE_NONE, ""
