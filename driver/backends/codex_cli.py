"""The backend that runs the agentic Codex program, `codex exec`, in the item's workspace.

Owns its command line, its environment and how its ending is read; `codex_events` reads its words.
The backend `codex` is another one: it asks a model over HTTP and writes the files itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Unpack

from driver.backend_api.driver import (
    FAILURE_COULD_NOT_RUN,
    ROLE_VERIFY,
    DriverCapabilities,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.fault_words import fault_in
from driver.backend_api.models import CODEX_MODELS, cost_of
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backends.cli.agent_reply import Reply, result_of
from driver.backends.cli.cli_checks import examine_cli, login_of_codex
from driver.backends.cli.cli_driver import CliDriver
from driver.backends.cli.codex_events import read_events
from driver.backends.cli.endings import not_run, printed_lines, tail
from driver.backends.cli.json_output import answer_in
from driver.backends.cli.local_driver import AgentCall, LocalOptions, dispatch_folder
from driver.execution.processes import Finished
from driver.terminal.check_result import CheckResult, failed_as

PROGRAM = "codex"
PROVIDER = "tidegate"
KEY_OF_THE_PROGRAM = "CODEX_API_KEY"  # the one name under which it takes a key for its own server

# What the program needs, beside what every child gets, to find its account and the network.
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

# What commands of the model see; a key among the names of the settings is left out by the
# program itself, by its name.
_SEEN_BY_COMMANDS = (
    *("PATH", "HOME", "LANG", "LC_*", "TERM", "TMPDIR", "USER", "LOGNAME", "SHELL", "TIDEGATE_*"),
    *("SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE"),
)

# Left alone it asks a failing server up to 30 times; the wave waits better, because it waits once
# for all its agents. Against a server that sends no headers only our own limits help.
_PATIENCE = {"request_max_retries": 1, "stream_max_retries": 1, "stream_idle_timeout_ms": 180_000}


class CodexCliDriver(CliDriver):
    """Runs `codex exec` once per dispatch; its sandbox lets it write in the workspace only."""

    name = "codex-cli"
    program = PROGRAM
    install = ("Codex", "@openai/codex")

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
        """`base_url` is a server that speaks Responses; the program's own account serves without.
        `program` is as CliDriver takes it."""
        models = {**CODEX_MODELS, **(model_map or {})}
        super().__init__(models, extra_args=extra_args, program=program, tier=tier, **options)
        self._base_url, self._key_name = base_url, api_key_env

    def probe_capabilities(self) -> DriverCapabilities:
        """Everything but a cost of its own, without contacting anything."""
        return self.capabilities(
            accuracy=0.97,
            models=tuple(dict.fromkeys(self._models.values())),
            native_cost=False,
            notes="codex exec in its own sandbox; the cost is reckoned from its tokens",
        )

    def command_line(self) -> tuple[str, ...]:
        """The call for a request that asks for nothing special; the prompt comes on stdin."""
        return (*self._program, *self._arguments(WorkerRequest(prompt=""), None))

    def readiness_problems(self) -> tuple[str, ...]:
        """Says so when the program or the named key is missing; whether it is logged in shows at
        the first use."""
        missing = None if self.found() else self.missing()
        return tuple(filter(None, (missing, self._without_key())))

    def examine(self) -> tuple[CheckResult, ...]:
        """The program, its version and its login, as an agent would find them."""
        found = self.found()
        if found is None:
            return (failed_as("program", self.missing()),)
        ask = self.asking(found, PARENT_NAMES)
        if problem := self._without_key():
            return (*examine_cli(found[0], ask), failed_as("key", problem))
        has_key = bool(self._key_name or self.environ.get(KEY_OF_THE_PROGRAM))
        login = None if self._base_url else partial(login_of_codex, has_key=has_key)
        return examine_cli(found[0], ask, login)

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run the program once and read its events."""
        found = self.found()
        if found is None:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, self.missing())
        if missing := self._without_key():
            result = not_run(worker_id, FAILURE_COULD_NOT_RUN, missing)
            result.fault = ProviderFault(FaultKind.BAD_KEY, missing)
            return result
        with dispatch_folder(request) as folder:
            schema = _schema_file(request, folder)
            call = AgentCall(
                argv=(*found, *self._arguments(request, schema)),
                folder=folder,
                names=PARENT_NAMES,
                extra=self._key(),
            )
            finished = self.run_agent(worker_id, request, call)
            now = datetime.now().astimezone()
            reply = _with_last_words(read_events(printed_lines(finished), now), finished, now)
        return self._result(worker_id, request, finished, reply)

    def _arguments(self, request: WorkerRequest, schema: Path | None) -> tuple[str, ...]:
        sandbox = "read-only" if request.role == ROLE_VERIFY else "workspace-write"
        settings = {
            **self._provider(),
            "shell_environment_policy.inherit": "all",
            "shell_environment_policy.ignore_default_excludes": False,
            "shell_environment_policy.include_only": [*_SEEN_BY_COMMANDS, *self.env_names],
            "project_doc_max_bytes": 0,
        }
        return (
            *("exec", "--json", "--skip-git-repo-check", "--ephemeral"),
            *("--ignore-user-config", "--ignore-rules"),
            *("--sandbox", sandbox, "--model", request.model or self.resolve_model(request.role)),
            *(part for key, value in settings.items() for part in ("-c", f"{key}={_toml(value)}")),
            *(("--output-schema", str(schema)) if schema else ()),
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

    def _key(self) -> dict[str, str]:
        if not self._key_name:
            return {}
        name = self._key_name if self._base_url else KEY_OF_THE_PROGRAM
        return {name: self.environ[self._key_name]}

    def _without_key(self) -> str | None:
        if not self._key_name or self.environ.get(self._key_name):
            return None
        return (
            f"the variable {self._key_name}, named in [backend] api_key_env, is not set; "
            "put the key into it, or leave the setting out to use the program's own login"
        )

    def _result(
        self, worker_id: str, request: WorkerRequest, finished: Finished, reply: Reply
    ) -> WorkerResult:
        model = request.model or self.resolve_model(request.role)
        reply = replace(
            reply,
            model=model,
            usage=self._priced(model, reply),
            structured=answer_in(reply.text) if request.result_schema else None,
        )
        return result_of(worker_id, request, finished, reply, PROGRAM)

    def _priced(self, model: str, reply: Reply) -> Usage:
        if reply.usage.cost_usd is not None:
            return reply.usage
        cost = cost_of(model, reply.usage, self.prices, cached_tokens=reply.cached_tokens)
        return replace(reply.usage, cost_usd=cost)


def _schema_file(request: WorkerRequest, folder: Path) -> Path | None:
    if not request.result_schema:
        return None
    path = folder / "schema.json"
    path.write_text(json.dumps(request.result_schema), encoding="utf-8")
    return path.absolute()


def _with_last_words(reply: Reply, finished: Finished, now: datetime) -> Reply:
    """A run that told no error in its events may have told one on standard error."""
    if reply.finished or reply.fault is not None:
        return reply
    fault = fault_in(tail(finished.stderr), now)
    return reply if fault is None else replace(reply, fault=fault, failure=FAILURE_COULD_NOT_RUN)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={_toml(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)
