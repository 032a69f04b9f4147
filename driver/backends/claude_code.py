"""The backend that runs Claude Code's `claude -p` in the item's workspace.

Owns its command line, its environment and its login; `claude_stream` reads its output.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Unpack

from driver.backend_api.driver import (
    ROLE_SETUP,
    ROLE_VERIFY,
    ROLE_WORKER,
    WORKER_UNKNOWN,
    AgentDriver,
    WorkerRequest,
)
from driver.backends.backend_settings import Environ, given, local_options, models_of
from driver.backends.cli.agent_reply import Reply
from driver.backends.cli.claude_stream import read_stream
from driver.backends.cli.cli_driver import CliDriver, knows, reason_of
from driver.backends.cli.endings import printed_lines
from driver.backends.cli.json_output import object_in
from driver.backends.cli.local_driver import Ask, LocalOptions
from driver.execution.processes import Finished, child_environment
from driver.homes.login import LoginFile
from driver.terminal.check_result import CheckResult, failed, passed, warned
from state_store.documents.errors import InputError
from tools.settings.schema import BackendSettings

__all__ = ["WORKER_UNKNOWN", "ClaudeCodeDriver"]

PROGRAM = "claude"
MODELS = {ROLE_WORKER: "haiku", ROLE_SETUP: "sonnet", ROLE_VERIFY: "haiku"}
DEFAULT_MAX_TURNS = 50
TOOLS = "Read,Write,Edit,Bash"
TOOLS_OF_A_READER = "Read,Grep,Glob"  # a reviewer must not change the work it judges
# Outside of walls the agent may run these, and the commands of its item.
_CHECKS = (
    *("git status", "git diff", "git log", "git show", "git blame", "git grep", "git ls-files"),
    *("ruff check", "mypy", "pyright", "flake8", "npx tsc --noEmit", "npx eslint"),
    *("cargo check", "cargo clippy", "go vet", "golangci-lint run", "shellcheck"),
)
_LOG_IN = "run claude once and log in, or set ANTHROPIC_API_KEY"

# The CLI also needs these variables to find its account and the network.
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

# What it needs of its state: all else there is about other projects.
_OF_ITS_STATE = (
    *("primaryApiKey", "customApiKeyResponses", "oauthAccount", "userID"),
    "hasCompletedOnboarding",
)

# By default the CLI retries a dead server for up to 50 minutes. The wave waits better, because it
# waits once for all its agents. One retry stays, so a short fault does not cost a long session.
BOUNDS = {
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "API_TIMEOUT_MS": "180000",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
}


class ClaudeCodeDriver(CliDriver):
    """Runs Claude Code once per dispatch. It may edit files in the workspace."""

    name = "claude-code"
    program = PROGRAM
    install = ("Claude Code", "@anthropic-ai/claude-code")
    parent_names = PARENT_NAMES
    accuracy = 0.99
    notes = "claude -p; the CLI prices unknown models like Opus"
    offered = ("haiku", "sonnet", "opus")
    first_signal = signal.SIGINT  # the CLI then ends its running tool and often reports its cost

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
        """`program` is a name, a path or an argument prefix.

        Raises InputError for `max_turns` below 1.
        """
        if max_turns < 1:  # the CLI takes 0 as "no limit"
            raise InputError(f"[backend] max_turns must be at least 1, not {max_turns}")
        models = {**MODELS, **(model_map or {})}
        super().__init__(models, extra_args=extra_args, program=program, tier=tier, **options)
        self._max_turns = max_turns

    def reports_cost(self) -> bool:
        """True: every answer of the program has its cost."""
        return True

    def login(self, ask: Ask) -> CheckResult:
        """Check the login with `claude auth status`, which does not contact the provider."""
        return login_of_claude(ask)

    def variables(self, request: WorkerRequest) -> Mapping[str, str]:
        """The limits of the CLI's own retries, unless the user has set them. Inside of walls also
        the word that they are there: without it the CLI asks for everything if root runs it."""
        own = child_environment(self.environ, self.env_names)
        bounds = {name: value for name, value in BOUNDS.items() if name not in own}
        return {**bounds, **({"IS_SANDBOX": "1"} if request.is_enclosed else {})}

    def login_files(self) -> tuple[LoginFile, ...]:
        """The account of the CLI, and the user's own settings and instructions."""
        moved = self.environ.get("CLAUDE_CONFIG_DIR")
        folder = Path(moved) if moved else self.home / ".claude"
        state = (folder if moved else self.home) / ".claude.json"
        return (
            LoginFile(".claude/.credentials.json", folder / ".credentials.json", is_renewed=True),
            LoginFile(".claude.json", state, keep=_OF_ITS_STATE),
            LoginFile(".claude/settings.json", folder / "settings.json"),
            LoginFile(".claude/CLAUDE.md", folder / "CLAUDE.md"),
            *super().login_files(),
        )

    def read(self, request: WorkerRequest, finished: Finished, now: datetime) -> Reply:
        """Parse the JSON stream of the program."""
        del request
        return read_stream(printed_lines(finished), now)

    def arguments(self, request: WorkerRequest, folder: Path) -> tuple[str, ...]:
        """The options of `claude -p`."""
        del folder
        schema, reads = request.result_schema, request.role == ROLE_VERIFY
        free = request.is_enclosed and not reads
        allowed = [f"Bash({one})" for one in request.commands if "\n" not in one]
        allowed += [f"Bash({one}:*)" for one in _CHECKS]
        sources = "user,project,local" if request.whole_project else "user"
        return (
            *("-p", "--output-format", "stream-json", "--verbose"),
            *("--permission-mode", "bypassPermissions" if free else "acceptEdits"),
            *(() if free or reads else ("--allowedTools", *allowed)),
            *("--tools", TOOLS_OF_A_READER if reads else TOOLS),
            *("--model", request.model or self.resolve_model(request.role)),
            *("--max-turns", str(self._max_turns)),
            *("--setting-sources", sources, "--no-session-persistence"),
            *(() if request.whole_project else ("--strict-mcp-config",)),
            *(("--json-schema", json.dumps(schema)) if schema else ()),
            *self._extra_args,
        )


def from_settings(backend: BackendSettings, environ: Environ) -> AgentDriver:
    """The driver for `[backend]` of the settings."""
    return ClaudeCodeDriver(
        models_of(backend),
        extra_args=backend.extra_args,
        **local_options(backend, environ),
        **given(program=backend.command, tier=backend.tier, max_turns=backend.max_turns),
    )


def login_of_claude(ask: Ask) -> CheckResult:
    """Check the login with `claude auth status`."""
    if not knows(ask, "auth", "status"):
        return warned("login", "this version cannot check it", "install a current Claude Code")
    done = ask("auth", "status")
    status = object_in(done.stdout) or {}
    if done.exit_code == 0 and status.get("loggedIn") is True:
        return passed("login", f"by {status.get('authMethod', 'means it does not tell')}")
    if status.get("loggedIn") is False:
        return failed("login", "claude is not logged in", _LOG_IN)
    return warned("login", f"claude auth status: {reason_of(done)}", _LOG_IN)
