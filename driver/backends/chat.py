"""The backend for Chat Completions: the model sees the owned files and answers with a patch.

Owns a dispatch from files to files; `dialogue` talks with the model.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_REFUSED,
    MODEL_ROLES,
    ROLE_SETUP,
    ROLE_VERIFY,
    WORKER_DONE,
    WORKER_FAILED,
    WORKER_RUNNING,
    WORKER_UNKNOWN,
    AgentDriver,
    DriverCapabilities,
    Usage,
    WorkerRequest,
    WorkerResult,
    WorkerStatus,
)
from driver.backend_api.models import CODEX_MODELS
from driver.backend_api.provider_fault import FaultKind, ProviderFault
from driver.backend_api.throttle import Throttle
from driver.backend_api.tries import Tries
from driver.backends.backend_settings import Environ, given, models_of
from driver.backends.cli.endings import not_run
from driver.backends.cli.local_driver import DEFAULT_STALL_S, LocalDriver
from driver.backends.http.dialogue import Channel, Dialogue, Work
from driver.backends.http.exchange import Watch
from driver.backends.http.owned_files import show_owned
from driver.backends.http.patch_protocol import WORKER_PATCH_SCHEMA
from driver.backends.http.reply import TransportError, checked_document, foreign_error
from driver.backends.http.request_shape import LIMITS, Shapes
from driver.backends.http.server import OPENAI_URL, Server, complete, examine_server, usual_key_name
from driver.filesystem.open_folders import NotPlainError
from driver.filesystem.safe_file_access import write_plain
from driver.terminal.check_result import CheckResult
from state_store.documents.errors import CannotRunError, InputError
from tools.settings.load import process_environment
from tools.settings.schema import BackendSettings

# A name for callers of the original project. The server itself tells the formats that it takes.
JSON_SCHEMA_CAPABLE = frozenset(
    {"gpt-4o", "gpt-4o-mini", "gpt-4-turbo", "gpt-4.1", "gpt-4.1-preview"}
)

__all__ = [
    "JSON_SCHEMA_CAPABLE",
    "ROLE_SETUP",
    "ROLE_VERIFY",
    "WORKER_DONE",
    "WORKER_FAILED",
    "WORKER_PATCH_SCHEMA",
    "WORKER_UNKNOWN",
    "CodexDriver",
]

_FAULT_RETRIES = 5  # of one request; its time limit and the gate bound them too
_REMEDIES = {
    FaultKind.BAD_KEY: "check the key in {key}",
    FaultKind.UNKNOWN_MODEL: "the server does not know the model {model!r}; set [backend] model",
    FaultKind.NO_CREDIT: "add credit to the account of {key}",
}

Transport = Callable[[dict[str, Any]], dict[str, Any]]


class CodexDriver(LocalDriver):
    """Asks OpenAI, or another server with its protocol, for whole new files."""

    name = "codex"
    encloses = True  # it starts no program
    only_answers = True
    asks_base_url = True

    def __init__(  # noqa: PLR0913, PLR0917 - the source's parameters, and settings of one backend
        self,
        model_map: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        now: Callable[[], float] | None = None,
        max_owned_bytes: int = 200_000,
        max_retries: int = 2,
        timeout_s: float = 120.0,
        allow_unverified_models: bool = False,
        *,
        base_url: str = OPENAI_URL,
        api_key_env: str | None = None,
        proxies: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        throttle: Throttle | None = None,
        stall_s: float | None = None,
        tier: int = 2,
    ) -> None:
        """`timeout_s` bounds a dispatch with all its requests and waits, `stall_s` one request,
        which is then repeated once. A caller's `transport` takes a payload and returns the server's
        document. `allow_unverified_models` has no effect: every model is allowed. `proxies` are
        variables that may name a proxy. The default of `environ` is the environment of this process
        at each call."""
        del allow_unverified_models
        retries = max(_FAULT_RETRIES, max_retries) if max_retries else 0
        super().__init__(environ=environ, timeout_s=timeout_s, stall_s=stall_s, retries=retries)
        key_name = usual_key_name(base_url) if api_key_env is None else api_key_env
        self.server = Server(base_url, key_name, tuple(proxies))
        self.model_map = {**CODEX_MODELS, **(model_map or {})}
        self.max_owned_bytes = max_owned_bytes
        self.max_retries = max_retries
        self.transport = transport
        self.tier = tier
        self._live_environ = environ is None
        self._limit_s = timeout_s
        self._now = now or time.monotonic
        self._throttle = throttle or self._throttle
        openai = base_url.rstrip("/") == OPENAI_URL
        self._shapes = Shapes(limits=LIMITS if openai else LIMITS[::-1])
        self._heard: dict[str, float] = {}
        self._heard_lock = threading.Lock()

    def probe_capabilities(self) -> DriverCapabilities:
        """The abilities of the original project's backend. Does not use the network."""
        return DriverCapabilities(
            name=self.name,
            structured_output=True,
            native_cost_tracking=True,
            tool_use_accuracy=0.92,
            recommended_verification_tier=self.tier,
            available_models=tuple(dict.fromkeys(self.model_map.values())),
            notes="sees the owned files only and answers with whole files",
        )

    def readiness_problems(self) -> tuple[str, ...]:
        """The problem with the key's variable or the address, if any."""
        problem = None if self.transport else self.server.problem(self._environment())
        return () if problem is None else (problem,)

    def examine(self) -> tuple[CheckResult, ...]:
        """Check address, key and models with the server's list of models."""
        if self.transport is not None:
            return super().examine()
        models = tuple(dict.fromkeys(map(self.resolve_model, MODEL_ROLES)))
        return examine_server(self.server, self._environment(), models)

    def get_tokens_spent(self) -> int | None:
        """Tokens of all metered dispatches so far; None if there was none."""
        return self._meter.known or None

    def worker_status(self, worker_id: str) -> WorkerStatus:
        """The state of a dispatch. It is stalled after silence for its whole time limit."""
        status = super().worker_status(worker_id)
        if status.state == WORKER_RUNNING:
            with self._heard_lock:
                status.age_s = max(0.0, self._now() - self._heard.get(worker_id, self._now()))
            status.stalled = status.age_s > (self.stall_s or self._limit_s)
            status.detail = "waiting for the server's answer"
        return status

    def _answered(self, worker_id: str, tries: Tries) -> WorkerResult:
        # Each request passes the gate by itself, so that a late fault does not repeat the whole
        # conversation, which costs money.
        if self._cancelled.is_set():
            result = not_run(worker_id, FAILURE_CANCELLED, "cancelled before it started")
        else:
            result = self.answer(worker_id, self._metered(tries.next_request()))
        self._meter.add(result.usage)
        return result

    def _metered(self, request: WorkerRequest) -> WorkerRequest:
        """The request, whose booked use the meter counts as well."""
        book = request.between_tries
        if book is None:
            return request

        def metered(usage: Usage) -> str:
            self._meter.add(usage)
            return book(usage)

        return replace(request, between_tries=metered)

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Ask until a valid patch comes, then write all of it."""
        if problems := self.readiness_problems():
            fault = ProviderFault(FaultKind.BAD_KEY, problems[0])
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, problems[0], fault)
        names = tuple(request.owned_files)
        try:
            shown = show_owned(Path(request.workdir), names, self.max_owned_bytes)
        except (CannotRunError, InputError, OSError) as error:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, str(error))
        model = request.model or self.resolve_model(request.role)
        channel = Channel(
            send=self._send,
            throttle=self._throttle,
            shapes=self._shapes,
            cancelled=self._cancelled,
            stall_s=self.stall_s,
            max_retries=self.max_retries,
            prices=self.prices,
        )
        until = time.monotonic() + (request.timeout_s or self._limit_s)
        heard = partial(self._hear, worker_id)
        dialogue = Dialogue(channel, request, model, shown, until=until, heard=heard)
        try:
            work = self._written(request, dialogue.run())
        finally:
            with self._heard_lock:
                self._heard.pop(worker_id, None)
        return self._result(worker_id, dialogue, work, model)

    def _result(self, worker_id: str, dialogue: Dialogue, work: Work, model: str) -> WorkerResult:
        trouble, why = dialogue.bill.trouble, work.error
        if remedy := _REMEDIES.get(work.fault.kind) if work.fault is not None else None:
            why += "; " + remedy.format(key=self.server.key_name or "it", model=model)
        if trouble:
            sys.stderr.write(
                f"WARNING: {self.name} dispatch {worker_id} is unmetered: usage.total_tokens is "
                f"{trouble} in one of its answers\n"
            )
        return WorkerResult(
            worker_id,
            ok=not work.failure,
            structured=work.value or None,
            text=str(work.value.get("summary", "")) or dialogue.text,
            files_written=() if work.failure else tuple(work.files),
            error=why or None,
            usage=dialogue.bill.usage,
            model=model,
            failure=work.failure,
            fault=work.fault,
        )

    def _written(self, request: WorkerRequest, work: Work) -> Work:
        """Write the files of `work`; returns it, or the failure of the write."""
        if work.failure or not work.files:
            return work
        if self._cancelled.is_set():
            return Work(failure=FAILURE_CANCELLED, error="cancelled before anything was written")
        try:
            write_plain(Path(request.workdir), work.files)
        except NotPlainError as error:
            return Work(failure=FAILURE_REFUSED, error=f"out-of-scope: {error}")
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            return Work(failure=FAILURE_AGENT, error=f"write_failed: {error}")
        except OSError as error:  # a full disk is not the model's fault
            return Work(failure=FAILURE_COULD_NOT_RUN, error=f"write_failed: {error}")
        return work

    def _send(self, body: dict[str, Any], watch: Watch) -> dict[str, Any]:
        if self.transport is None:
            return complete(self.server, body, self._environment(), watch)
        try:
            return checked_document(self.transport(body))
        except TransportError:
            raise
        except (RuntimeError, OSError, ValueError) as error:
            raise foreign_error(error) from error

    def _environment(self) -> Mapping[str, str]:
        return process_environment() if self._live_environ else self.environ

    def _hear(self, worker_id: str) -> None:
        with self._heard_lock:
            self._heard[worker_id] = self._now()


def from_settings(backend: BackendSettings, environ: Environ) -> AgentDriver:
    """The driver for `[backend]` of the settings."""
    return CodexDriver(
        models_of(backend),
        environ=environ,
        **completion_options(backend),
        **given(base_url=backend.base_url, api_key_env=backend.api_key_env),
    )


def completion_options(backend: BackendSettings) -> dict[str, Any]:
    """The options of every backend behind Chat Completions."""
    # A model on this machine may send its whole answer at the end, so silence has no limit.
    patience = None if backend.is_local else DEFAULT_STALL_S
    return {
        "timeout_s": backend.timeout_s,
        "stall_s": backend.stall_s or patience,
        "proxies": backend.env,
        **given(
            max_retries=backend.max_retries,
            max_owned_bytes=backend.max_owned_bytes,
            tier=backend.tier,
        ),
    }
