"""The backend for any server with OpenAI's protocol: hosted, a gateway, or on this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from driver.backend_api.driver import (
    MODEL_ROLES,
    ROLE_SETUP,
    ROLE_VERIFY,
    ROLE_WORKER,
    AgentDriver,
    DriverCapabilities,
)
from driver.backend_api.throttle import Throttle
from driver.backends.backend_settings import Environ, models_of
from driver.backends.chat import CodexDriver, Transport, completion_options
from driver.backends.http.exchange import AuthStripRedirectHandler, Watch
from driver.backends.http.server import OPENAI_KEY, Server, complete, default_openai_transport
from state_store.documents.errors import InputError
from tools.settings.load import process_environment
from tools.settings.schema import BackendSettings

__all__ = [
    "ROLE_SETUP",
    "ROLE_VERIFY",
    "ROLE_WORKER",
    "OpenAICompatibleDriver",
    "default_openai_transport",
    "make_openai_compatible_transport",
]
_AuthStripRedirectHandler = AuthStripRedirectHandler  # the original project's name


class OpenAICompatibleDriver(CodexDriver):
    """Asks one model at an address. The models of a `model_map` override it."""

    name = "openai-compatible"

    def __init__(  # noqa: PLR0913, PLR0917 - the source's parameters, and settings of one backend
        self,
        base_url: str,
        model: str,
        api_key_env: str | None = OPENAI_KEY,
        is_local: bool = False,
        model_map: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        now: Callable[[], float] | None = None,
        max_owned_bytes: int = 200_000,
        max_retries: int = 2,
        timeout_s: float = 120.0,
        *,
        proxies: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        throttle: Throttle | None = None,
        stall_s: float | None = None,
        tier: int | None = None,
    ) -> None:
        """`is_local` marks a small model, whose work is checked more. Only the address decides if a
        key is needed."""
        super().__init__(
            {**dict.fromkeys(MODEL_ROLES, model), **(model_map or {})},
            transport,
            now,
            max_owned_bytes,
            max_retries,
            timeout_s,
            base_url=base_url,
            api_key_env=api_key_env,
            proxies=proxies,
            environ=environ,
            throttle=throttle,
            stall_s=stall_s,
            tier=tier or (3 if is_local else 2),
        )
        self.model = model
        self.is_local = is_local

    def probe_capabilities(self) -> DriverCapabilities:
        """The abilities of codex, with a lower tier for a local model."""
        return replace(
            super().probe_capabilities(),
            name=f"{self.name} ({self.model})",
            tool_use_accuracy=0.80 if self.is_local else 0.92,
        )


def from_settings(backend: BackendSettings, environ: Environ) -> AgentDriver:
    """The driver for `[backend]` of the settings. Raises InputError for a missing setting."""
    models = models_of(backend)
    needed: dict[str, Any] = {"base_url": backend.base_url, "model": models.get(ROLE_WORKER)}
    if missing := [key for key, value in needed.items() if not value]:
        raise InputError([f"the {backend.name} backend needs [backend] {key}" for key in missing])
    return OpenAICompatibleDriver(
        **needed,
        api_key_env=backend.api_key_env,
        is_local=backend.is_local,
        model_map=models,
        environ=environ,
        **completion_options(backend),
    )


def make_openai_compatible_transport(
    base_url: str, api_key_env: str = OPENAI_KEY, timeout_s: float = 120.0
) -> Transport:
    """A transport that posts to `<base_url>/chat/completions`. The key is read at each call.

    The transport raises RuntimeError with the variable's name if a needed key is missing.
    """
    server = Server(base_url, api_key_env)

    def transport(payload: dict[str, Any]) -> dict[str, Any]:
        return complete(server, payload, process_environment(), Watch(timeout_s))

    return transport
