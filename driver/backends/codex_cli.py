"""The backend that runs the agentic Codex program, `codex exec`, in the item's workspace.

Owns its command line, its environment and its login; `codex_events` parses its output. The backend
`codex` is different: it asks a model over HTTP and writes the files itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Unpack

from driver.backend_api.driver import ROLE_VERIFY, AgentDriver, WorkerRequest
from driver.backend_api.fault_words import fault_in
from driver.backend_api.models import CODEX_MODELS, cost_of
from driver.backends.backend_settings import (
    Environ,
    check_address,
    given,
    local_options,
    models_of,
)
from driver.backends.cli.agent_reply import Reply
from driver.backends.cli.cli_driver import CliDriver, knows, reason_of
from driver.backends.cli.codex_events import read_events
from driver.backends.cli.endings import printed_lines, tail
from driver.backends.cli.json_output import answer_in
from driver.backends.cli.local_driver import Ask, LocalOptions
from driver.execution.processes import Finished
from driver.filesystem.safe_file_access import replace_plain
from driver.homes.login import LoginFile
from driver.terminal.check_result import CheckResult, failed, passed, warned
from state_store.documents.errors import InputError
from tools.settings.schema import BackendSettings

PROGRAM = "codex"
PROVIDER = "tidegate"
KEY_OF_THE_PROGRAM = "CODEX_API_KEY"  # the only variable from which it takes a key

# The program also needs these variables to find its account and the network.
PARENT_NAMES = (
    "CODEX_HOME",
    KEY_OF_THE_PROGRAM,
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
)

# Commands of the model do not see these variables. The program itself removes all others that are
# named like keys.
_NOT_FOR_COMMANDS = ("CODEX_*", "*_PROXY", "*_proxy")

# By default it asks a failing server up to 30 times. The wave waits better, because it waits once
# for all its agents. If a server sends no headers, only our own limits help.
_PATIENCE = {"request_max_retries": 1, "stream_max_retries": 1, "stream_idle_timeout_ms": 180_000}


class CodexCliDriver(CliDriver):
    """Runs `codex exec` once per dispatch. Outside of walls its own sandbox allows writes only in
    the workspace; inside of walls it needs none, and often could not make one."""

    name = "codex-cli"
    program = PROGRAM
    install = ("Codex", "@openai/codex")
    parent_names = PARENT_NAMES
    accuracy = 0.97
    notes = "codex exec inside of walls or in its own sandbox; the cost is computed from its tokens"
    asks_base_url = True

    def __init__(
        self,
        model_map: Mapping[str, str] | None = None,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        extra_args: Sequence[str] = (),
        program: str | Sequence[str] = PROGRAM,
        tier: int = 1,
        **options: Unpack[LocalOptions],
    ) -> None:
        """`base_url` is a server with the Responses API (default: the program's own account).
        `program` is as in CliDriver."""
        models = {**CODEX_MODELS, **(model_map or {})}
        super().__init__(models, extra_args=extra_args, program=program, tier=tier, **options)
        self._base_url, self._key_name = base_url, api_key_env

    def key_problem(self) -> str | None:
        """The error message if the variable named in the settings is not set."""
        if not self._key_name or self.environ.get(self._key_name):
            return None
        return (
            f"the variable {self._key_name}, named in [backend] api_key_env, is not set; "
            "put the key into it, or leave the setting out to use the program's own login"
        )

    def variables(self, request: WorkerRequest) -> Mapping[str, str]:
        """The key named in the settings, in the variable that the program reads."""
        del request
        if not self._key_name:
            return {}
        name = self._key_name if self._base_url else KEY_OF_THE_PROGRAM
        return {name: self.environ[self._key_name]}

    def login(self, ask: Ask) -> CheckResult | None:
        """Check the login with `codex login status`; None with another server."""
        has_key = bool(self._key_name or self.environ.get(KEY_OF_THE_PROGRAM))
        return None if self._base_url else login_of_codex(ask, has_key=has_key)

    def login_files(self) -> tuple[LoginFile, ...]:
        """The account of the program."""
        folder = Path(self.environ.get("CODEX_HOME") or self.home / ".codex")
        account = LoginFile(".codex/auth.json", folder / "auth.json", is_renewed=True)
        return (account, *super().login_files())

    def read(self, request: WorkerRequest, finished: Finished, now: datetime) -> Reply:
        """Parse its events, and compute the cost from its tokens."""
        reply = read_events(printed_lines(finished), now)
        if not reply.finished and reply.fault is None:
            # A run without an error event may have printed an error on standard error.
            reply = replace(reply, fault=fault_in(tail(finished.stderr), now))
        model, usage = request.model or self.resolve_model(request.role), reply.usage
        if usage.cost_usd is None:
            cost = cost_of(model, usage, self.prices, cached_tokens=reply.cached_tokens)
            usage = replace(usage, cost_usd=cost)
        structured = answer_in(reply.text) if request.result_schema else None
        return replace(reply, model=model, usage=usage, structured=structured)

    def arguments(self, request: WorkerRequest, folder: Path) -> tuple[str, ...]:
        """The options of `codex exec`. Writes the schema of the answer to a file in `folder`."""
        hidden = [*_NOT_FOR_COMMANDS, *((self._key_name,) if self._key_name else ())]
        own = "read-only" if request.role == ROLE_VERIFY else "workspace-write"
        sandbox = "danger-full-access" if request.is_enclosed else own
        settings: dict[str, object] = {
            **self._provider(),
            "shell_environment_policy.inherit": "all",
            "shell_environment_policy.ignore_default_excludes": False,
            "shell_environment_policy.exclude": hidden,
            # The profile of a system often sets PATH anew, without the project's toolchains.
            "allow_login_shell": False,
        }
        sources: tuple[str, ...] = ("--trust",)
        if not request.whole_project:
            settings["project_doc_max_bytes"] = 0
            sources = ("--ignore-user-config", "--ignore-rules")
        schema: tuple[str, ...] = ()
        if request.result_schema:
            path = (folder / "schema.json").absolute()
            whole = json.dumps(request.result_schema).encode()
            replace_plain(path.parent.parent, f"{path.parent.name}/{path.name}", whole)
            schema = ("--output-schema", str(path))
        return (
            *("exec", "--json", "--skip-git-repo-check", "--ephemeral"),
            *sources,
            *("--sandbox", sandbox, "--model", request.model or self.resolve_model(request.role)),
            *(part for key, value in settings.items() for part in ("-c", f"{key}={_toml(value)}")),
            *schema,
            *self._extra_args,
            "-",
        )

    def _provider(self) -> dict[str, object]:
        if self._base_url is None:
            return {}
        key = {"env_key": self._key_name} if self._key_name else {}
        server = {"name": PROVIDER, "base_url": self._base_url, "wire_api": "responses"}
        return {
            "model_provider": PROVIDER,
            f"model_providers.{PROVIDER}": {**server, **key, **_PATIENCE},
        }


def from_settings(backend: BackendSettings, environ: Environ) -> AgentDriver:
    """The driver for `[backend]` of the settings. Raises InputError for a missing setting."""
    if backend.base_url and not (backend.model or backend.models):
        raise InputError("codex-cli at [backend] base_url needs [backend] model, a model it serves")
    check_address(backend)  # a password in it would show in the process list
    return CodexCliDriver(
        models_of(backend),
        base_url=backend.base_url,
        api_key_env=backend.api_key_env,
        extra_args=backend.extra_args,
        **local_options(backend, environ),
        **given(program=backend.command, tier=backend.tier),
    )


def login_of_codex(ask: Ask, *, has_key: bool) -> CheckResult:
    """Check the login with `codex login status`, unless the program gets a key (`has_key`)."""
    if has_key:
        return passed("login", "by a key in the environment")
    if not knows(ask, "login", "status"):
        return warned("login", "this version cannot check it", "install a current Codex CLI")
    done = ask("login", "status")
    if done.exit_code == 0:
        return passed("login", reason_of(done))
    remedy = "run codex login, or set CODEX_API_KEY"
    return failed("login", f"codex: {reason_of(done)}", remedy)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
