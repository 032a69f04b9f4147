"""Which adapter the name of a backend stands for: one dict, and the drivers of our own programs.

What a backend does with its settings is its own module's business.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from driver.backend_api.driver import MODEL_ROLES, ROLE_WORKER, AgentDriver
from driver.backend_api.models import own_prices
from driver.backends.cli.local_driver import DEFAULT_STALL_S, LocalDriver, LocalOptions
from driver.backends.http.endpoint import endpoint
from state_store.documents.errors import InputError
from tools.settings.kinds import TokenPrice
from tools.settings.load import Settings
from tools.settings.schema import BackendSettings

NO_PRICES: Mapping[str, TokenPrice] = MappingProxyType({})

Environ = Mapping[str, str]
Factory = Callable[[BackendSettings, Environ], AgentDriver]


class BackendConfigError(InputError, ValueError):
    """A backend configuration that cannot be used."""


def driver_from(
    backend: BackendSettings, environ: Environ, prices: Mapping[str, TokenPrice] = NO_PRICES
) -> AgentDriver:
    """The backend that the settings name; nothing is contacted.

    `prices` go before those of `model_table`, where the backend does not report what it cost.

    Raises InputError for an unknown name or a setting that is missing.
    """
    factory = FACTORIES.get(backend.name)
    if factory is None:
        raise InputError(f"[backend] name: {unknown(backend.name)}")
    driver = factory(backend, environ)
    if isinstance(driver, LocalDriver):
        driver.prices = own_prices(prices)
    return driver


def driver_of(settings: Settings) -> AgentDriver:
    """The backend that builds, when the settings of the reviewer's are right as well.

    Raises as `driver_from` does, InputError with what is wrong in both tables.
    """
    problems: list[str] = []
    driver = None
    try:
        driver = driver_from(settings.backend, settings.environ, settings.prices)
        _check_address(settings.backend)
    except InputError as error:
        problems.extend(error.problems)
    try:
        if review_driver_from(settings) is not None and settings.review_backend is not None:
            _check_address(settings.review_backend)
    except InputError as error:
        problems.extend(map(of_reviewer, error.problems))
    if driver is None or problems:
        raise InputError(problems)
    return driver


def review_driver_from(settings: Settings) -> AgentDriver | None:
    """The backend of `[review.backend]`; None where there is none and the main one reviews.

    Raises as `driver_from` does.
    """
    if settings.review_backend is None:
        return None
    try:
        return driver_from(settings.review_backend, settings.environ, settings.prices)
    except InputError as error:
        raise InputError([of_reviewer(problem) for problem in error.problems]) from error


def of_reviewer(sentence: str) -> str:
    """A sentence on a setting of `[backend]`, said of the reviewer's table."""
    return sentence.replace("[backend]", "[review.backend]")


def _claude(backend: BackendSettings, environ: Environ) -> AgentDriver:
    return _adapter("claude_code", "ClaudeCodeDriver")(
        _models(backend),
        extra_args=backend.extra_args,
        **_local(backend, environ),
        **given(program=backend.command, tier=backend.tier, max_turns=backend.max_turns),
    )


def _command(backend: BackendSettings, environ: Environ) -> AgentDriver:
    return _adapter("command", "CommandDriver")(
        (*backend.command, *backend.extra_args) if backend.command else (),
        models=_models(backend),
        output=backend.output,
        **_local(backend, environ),
        **given(tier=backend.tier),
    )


def _codex_cli(backend: BackendSettings, environ: Environ) -> AgentDriver:
    if backend.base_url and not (backend.model or backend.models):
        raise InputError("codex-cli at [backend] base_url needs [backend] model, one it serves")
    _check_address(backend)
    return _adapter("codex_cli", "CodexCliDriver")(
        _models(backend),
        base_url=backend.base_url,
        api_key_env=backend.api_key_env,
        extra_args=backend.extra_args,
        **_local(backend, environ),
        **given(program=backend.command, tier=backend.tier),
    )


def _replay(backend: BackendSettings, environ: Environ) -> AgentDriver:
    if not backend.recording:
        raise InputError("the replay backend needs [backend] recording, the file to answer from")
    return _adapter("replay", "ReplayDriver")(
        Path(backend.recording),
        match=backend.match,
        environ=environ,
        **given(tier=backend.tier),
    )


def _codex(backend: BackendSettings, environ: Environ) -> AgentDriver:
    return _adapter("chat", "CodexDriver")(
        _models(backend),
        environ=environ,
        **_completion(backend),
        **given(base_url=backend.base_url, api_key_env=backend.api_key_env),
    )


def _openai_compatible(backend: BackendSettings, environ: Environ) -> AgentDriver:
    models = _models(backend)
    needed = {"base_url": backend.base_url, "model": models.get(ROLE_WORKER)}
    if missing := [key for key, value in needed.items() if not value]:
        raise InputError([f"the {backend.name} backend needs [backend] {key}" for key in missing])
    return _adapter("openai_compatible", "OpenAICompatibleDriver")(
        **needed,
        api_key_env=backend.api_key_env,
        is_local=backend.is_local,
        model_map=models,
        environ=environ,
        **_completion(backend),
    )


def _check_address(backend: BackendSettings) -> None:
    # Before a program is started with it: a password in it would stand in the process list.
    if not backend.base_url or backend.name not in _ASKS_AT_BASE_URL:
        return
    try:
        endpoint(backend.base_url)
    except ValueError as error:
        raise BackendConfigError(f"[backend] base_url cannot be used: {error}") from error


def _completion(backend: BackendSettings) -> dict[str, Any]:
    # A model on one's own machine may take as long as it likes for an answer that comes at once.
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


FACTORIES: dict[str, Factory] = {
    "claude": _claude,
    "command": _command,
    "replay": _replay,
    "codex-cli": _codex_cli,
    "codex": _codex,
    "openai-compatible": _openai_compatible,
}

_ASKS_AT_BASE_URL = ("codex", "codex-cli", "openai-compatible")


def _adapter(module: str, name: str) -> Callable[..., AgentDriver]:
    # Imported when needed, so that --help does not pay for backends nobody asked for.
    adapter: Callable[..., AgentDriver] = getattr(import_module(f"driver.backends.{module}"), name)
    return adapter


def _models(backend: BackendSettings) -> dict[str, str]:
    everywhere = dict.fromkeys(MODEL_ROLES, backend.model) if backend.model else {}
    return {**everywhere, **backend.models}


def _local(backend: BackendSettings, environ: Environ) -> LocalOptions:
    options = LocalOptions(environ=environ, env=backend.env, timeout_s=backend.timeout_s)
    if backend.stall_s is not None:
        options["stall_s"] = backend.stall_s
    if backend.max_retries is not None:
        options["retries"] = backend.max_retries
    return options


def given(**values: Any) -> dict[str, Any]:
    """Those of the values that are not left to the backend's own defaults."""
    return {key: value for key, value in values.items() if value not in (None, ())}


def unknown(name: str) -> str:
    """A sentence on a name that stands for no backend, with the one that may be meant."""
    near = difflib.get_close_matches(name, FACTORIES, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(FACTORIES)}"
    return f"unknown backend {name!r}; {hint}"
