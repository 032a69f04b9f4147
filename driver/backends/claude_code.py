"""The backend that runs Claude Code's `claude -p` in the item's workspace.

Owns its command line, its environment and how its ending is read; `claude_stream` reads its words.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Unpack

from driver.backend_api.driver import (
    FAILURE_COULD_NOT_RUN,
    ROLE_SETUP,
    ROLE_VERIFY,
    ROLE_WORKER,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
)
from driver.backends.cli.agent_reply import result_of
from driver.backends.cli.claude_stream import read_stream
from driver.backends.cli.cli_checks import examine_cli, login_of_claude
from driver.backends.cli.cli_driver import CliDriver
from driver.backends.cli.endings import not_run, printed_lines
from driver.backends.cli.local_driver import AgentCall, LocalOptions, dispatch_folder
from driver.execution.processes import child_environment
from driver.terminal.check_result import CheckResult, failed_as
from state_store.documents.errors import InputError

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


class ClaudeCodeDriver(CliDriver):
    """Runs Claude Code once per dispatch; file edits inside the workspace are allowed."""

    name = "claude-code"
    program = PROGRAM
    install = ("Claude Code", "@anthropic-ai/claude-code")

    def __init__(
        self,
        model_map: Mapping[str, str] | None = None,
        *,
        extra_args: Sequence[str] = (),
        max_turns: int = DEFAULT_MAX_TURNS,
        program: str | Sequence[str] = PROGRAM,
        tier: int = 1,
        **options: Unpack[LocalOptions],
    ) -> None:
        """`program` is a name, a path or a whole argument prefix.

        Raises InputError for `max_turns` below 1.
        """
        if max_turns < 1:  # the CLI silently takes 0 for "no limit"
            raise InputError(f"[backend] max_turns must be at least 1, not {max_turns}")
        models = {**MODELS, **(model_map or {})}
        super().__init__(models, extra_args=extra_args, program=program, tier=tier, **options)
        self._max_turns = max_turns

    def probe_capabilities(self) -> DriverCapabilities:
        """Everything, without contacting anything."""
        return self.capabilities(
            accuracy=0.99,
            models=("haiku", "sonnet", "opus"),
            native_cost=True,
            notes="claude -p; models without a known price are reckoned by the CLI like Opus",
        )

    def reports_cost(self) -> bool:
        """Every answer of the program has its own figure."""
        return True

    def command_line(self) -> tuple[str, ...]:
        """The call for a request that asks for nothing special; the prompt comes on stdin."""
        return (*self._program, *self._arguments(WorkerRequest(prompt="")))

    def readiness_problems(self) -> tuple[str, ...]:
        """Says so when the program is missing; whether it is logged in shows at the first use."""
        return () if self.found() else (self.missing(),)

    def examine(self) -> tuple[CheckResult, ...]:
        """The program, its version and its login, as an agent would find them."""
        found = self.found()
        if found is None:
            return (failed_as("program", self.missing()),)
        return examine_cli(found[0], self.asking(found, PARENT_NAMES), login_of_claude)

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run the CLI once and read its result line."""
        found = self.found()
        if found is None:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, self.missing())
        with dispatch_folder(request) as folder:
            call = AgentCall(
                argv=(*found, *self._arguments(request)),
                folder=folder,
                names=PARENT_NAMES,
                extra=self._bounds(),
                # SIGINT makes it end its running tool and often still tell what it cost.
                first_signal=signal.SIGINT,
            )
            finished = self.run_agent(worker_id, request, call)
            reply = read_stream(printed_lines(finished), datetime.now().astimezone())
        return result_of(worker_id, request, finished, reply, PROGRAM)

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
