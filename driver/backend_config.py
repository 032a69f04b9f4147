"""Which backend a name stands for: one dict, and the two ways a configuration reaches it.

`driver_from` serves our own programs; the three functions on plain dicts keep the source's shapes
and error types. What a backend does with its settings is its own module's business.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from driver.agent_driver import MODEL_ROLES, ROLE_WORKER, AgentDriver
from driver.backends.local_driver import DEFAULT_STALL_S, LocalDriver, LocalOptions
from driver.completions.endpoint import endpoint
from driver.model_table import own_prices
from state_store.errors import CannotRunError, InputError
from tools import settings as tidegate_settings
from tools.setting_kinds import TokenPrice
from tools.settings import Settings
from tools.settings_schema import BackendSettings

DEFAULT_BACKEND = "claude"
DEFAULT_PATH = Path("aesop.config.json")
NO_PRICES: Mapping[str, TokenPrice] = MappingProxyType({})

Environ = Mapping[str, str]
Factory = Callable[[BackendSettings, Environ], AgentDriver]


class BackendConfigError(InputError, ValueError):
    """A backend configuration that cannot be used."""


class BackendConfigTypeError(InputError, TypeError):
    """A backend configuration of the wrong shape."""


def driver_from(
    backend: BackendSettings, environ: Environ, prices: Mapping[str, TokenPrice] = NO_PRICES
) -> AgentDriver:
    """The backend that the settings name; nothing is contacted.

    `prices` go before those of `model_table`, where the backend does not report what it cost.

    Raises InputError for an unknown name or a setting that is missing, CannotRunError for a
    backend that this version does not bring.
    """
    factory = FACTORIES.get(backend.name)
    if factory is None:
        raise InputError(f"[backend] name: {_unknown(backend.name)}")
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


def load_backend_config(path: str | Path | None = None) -> dict[str, Any]:
    """The backend section of a JSON file, with every key it has; absent means claude.

    Raises ValueError for unreadable, broken or incomplete content, TypeError for a wrong shape.
    """
    path = DEFAULT_PATH if path is None else Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {"backend": DEFAULT_BACKEND}
    except (OSError, ValueError, RecursionError) as error:
        raise BackendConfigError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise BackendConfigTypeError(f"{path}: must hold a JSON object")
    nested = content.get("backend")
    config: dict[str, Any] = nested if isinstance(nested, dict) else content
    return {**config, "backend": _checked(config, str(path))}


def build_driver(
    config: Mapping[str, Any] | None = None, *, environ: Environ | None = None
) -> AgentDriver:
    """The backend for a dict such as `load_backend_config` gives; nothing is contacted.

    Raises ValueError for an unknown backend or a missing key, CannotRunError for a backend that
    this version does not bring.
    """
    config = load_backend_config() if config is None else config
    name = _checked(config, "backend configuration")
    if environ is None:
        environ = tidegate_settings.process_environment()
    return FACTORIES[name](_as_settings(name, config), environ)


def describe_backend(config: Mapping[str, Any] | None = None) -> str:
    """One ASCII line for people; never raises for a backend that is unknown or cannot be built."""
    config = load_backend_config() if config is None else config
    name = config.get("backend", DEFAULT_BACKEND)
    if not isinstance(name, str) or name not in FACTORIES:
        line = f"unknown backend '{name}'"
    else:
        try:
            line = build_driver(config, environ={}).describe()
        except (InputError, CannotRunError) as error:
            line = f"{name}: {error}"
    return line.encode("ascii", "replace").decode("ascii")


def _claude(backend: BackendSettings, environ: Environ) -> AgentDriver:
    return _adapter("claude_code_driver", "ClaudeCodeDriver")(
        _models(backend),
        extra_args=backend.extra_args,
        **_local(backend, environ),
        **_given(program=backend.command, tier=backend.tier, max_turns=backend.max_turns),
    )


def _command(backend: BackendSettings, environ: Environ) -> AgentDriver:
    return _adapter("command_driver", "CommandDriver")(
        (*backend.command, *backend.extra_args) if backend.command else (),
        models=_models(backend),
        output=backend.output,
        **_local(backend, environ),
        **_given(tier=backend.tier),
    )


def _codex_cli(backend: BackendSettings, environ: Environ) -> AgentDriver:
    if backend.base_url and not (backend.model or backend.models):
        raise InputError("codex-cli at [backend] base_url needs [backend] model, one it serves")
    _check_address(backend)
    return _adapter("codex_cli_driver", "CodexCliDriver")(
        _models(backend),
        base_url=backend.base_url,
        api_key_env=backend.api_key_env,
        extra_args=backend.extra_args,
        **_local(backend, environ),
        **_given(program=backend.command, tier=backend.tier),
    )


def _replay(backend: BackendSettings, environ: Environ) -> AgentDriver:
    if not backend.recording:
        raise InputError("the replay backend needs [backend] recording, the file to answer from")
    return _adapter("replay_driver", "ReplayDriver")(
        Path(backend.recording),
        match=backend.match,
        environ=environ,
        **_given(tier=backend.tier),
    )


def _codex(backend: BackendSettings, environ: Environ) -> AgentDriver:
    return _adapter("codex_driver", "CodexDriver")(
        _models(backend),
        environ=environ,
        **_completion(backend),
        **_given(base_url=backend.base_url, api_key_env=backend.api_key_env),
    )


def _openai_compatible(backend: BackendSettings, environ: Environ) -> AgentDriver:
    models = _models(backend)
    needed = {"base_url": backend.base_url, "model": models.get(ROLE_WORKER)}
    if missing := [key for key, value in needed.items() if not value]:
        raise InputError([f"the {backend.name} backend needs [backend] {key}" for key in missing])
    return _adapter("openai_compatible_driver", "OpenAICompatibleDriver")(
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
        **_given(
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
_REQUIRED = {"codex": ("model",), "openai-compatible": ("base_url", "model")}


def _adapter(module: str, name: str) -> Callable[..., AgentDriver]:
    # Imported when needed, so that --help does not pay for backends nobody asked for.
    adapter: Callable[..., AgentDriver] = getattr(import_module(f"driver.{module}"), name)
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


def _given(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value not in (None, ())}


def _checked(config: Mapping[str, Any], where: str) -> str:
    name = config.get("backend", DEFAULT_BACKEND)
    if not isinstance(name, str):
        raise BackendConfigTypeError(f"{where}: backend must be a text, not {name!r:.40}")
    if name not in FACTORIES:
        raise BackendConfigError(f"{where}: {_unknown(name)}")
    missing = [key for key in _REQUIRED.get(name, ()) if not config.get(key)]
    if missing:
        raise BackendConfigError([f"{where}: backend {name!r} needs {key!r}" for key in missing])
    return name


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, FACTORIES, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(FACTORIES)}"
    return f"unknown backend {name!r}; {hint}"


def _as_settings(name: str, config: Mapping[str, Any]) -> BackendSettings:
    models = config.get("model_map") or {}
    return BackendSettings(
        name=name,
        models={role: str(model) for role, model in models.items()},
        **_given(
            model=config.get("model"),
            command=tuple(config.get("command") or ()),
            recording=config.get("recording"),
            timeout_s=config.get("timeout_s"),
            base_url=config.get("base_url"),
            api_key_env=config.get("api_key_env"),
            is_local=bool(config.get("is_local")),
            max_retries=config.get("max_retries"),
            max_owned_bytes=config.get("max_owned_bytes"),
        ),
    )
