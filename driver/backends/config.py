"""Backend configuration as a dict or JSON file, with the original project's functions and errors.

Our own programs build their backends from the settings, with `registry`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.backend_settings import BackendConfigError, Environ, given
from driver.backends.registry import ADAPTERS, driver_from, unknown
from driver.filesystem.safe_file_access import regular_bytes
from state_store.documents.errors import CannotRunError, InputError
from state_store.documents.strict_json import parse_foreign
from tools.settings import load as tidegate_settings
from tools.settings.schema import BackendSettings

DEFAULT_BACKEND = "claude"
_MAX_BYTES = 2**20
DEFAULT_PATH = Path("aesop.config.json")


class BackendConfigTypeError(InputError, TypeError):
    """A backend configuration has the wrong type."""


def load_backend_config(path: str | Path | None = None) -> dict[str, Any]:
    """The backend section of a JSON file, with all keys; claude if there is none.

    Raises ValueError for unreadable, broken or incomplete content, TypeError for a wrong type.
    """
    path = DEFAULT_PATH if path is None else Path(path)
    try:
        content = parse_foreign(regular_bytes(path, _MAX_BYTES).decode("utf-8-sig"))
    except FileNotFoundError:
        return {"backend": DEFAULT_BACKEND}
    except (OSError, ValueError) as error:
        raise BackendConfigError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise BackendConfigTypeError(f"{path}: must hold a JSON object")
    nested = content.get("backend")
    config: dict[str, Any] = nested if isinstance(nested, dict) else content
    return {**config, "backend": _checked(config, str(path))}


def build_driver(
    config: Mapping[str, Any] | None = None, *, environ: Environ | None = None
) -> AgentDriver:
    """The backend for a dict such as `load_backend_config` returns. Does not use the network.

    Raises ValueError for an unknown backend or a missing key.
    """
    config = load_backend_config() if config is None else config
    name = _checked(config, "backend configuration")
    if environ is None:
        environ = tidegate_settings.process_environment()
    return driver_from(_as_settings(name, config), environ)


def describe_backend(config: Mapping[str, Any] | None = None) -> str:
    """A line of ASCII for people, also for an unknown or unusable backend."""
    config = load_backend_config() if config is None else config
    name = config.get("backend", DEFAULT_BACKEND)
    if not isinstance(name, str) or name not in ADAPTERS:
        line = f"unknown backend '{name}'"
    else:
        try:
            line = build_driver(config, environ={}).describe()
        except (InputError, CannotRunError) as error:
            line = f"{name}: {error}"
    return line.encode("ascii", "replace").decode("ascii")


_KEYS = (
    *("model", "recording", "timeout_s", "base_url", "api_key_env"),
    *("max_retries", "max_owned_bytes"),
)
_REQUIRED = {"codex": ("model",), "openai-compatible": ("base_url", "model")}


def _checked(config: Mapping[str, Any], where: str) -> str:
    name = config.get("backend", DEFAULT_BACKEND)
    if not isinstance(name, str):
        raise BackendConfigTypeError(f"{where}: backend must be a text, not {name!r:.40}")
    if name not in ADAPTERS:
        raise BackendConfigError(f"{where}: {unknown(name)}")
    missing = [key for key in _REQUIRED.get(name, ()) if not config.get(key)]
    if missing:
        raise BackendConfigError([f"{where}: backend {name!r} needs {key!r}" for key in missing])
    return name


def _as_settings(name: str, config: Mapping[str, Any]) -> BackendSettings:
    models = config.get("model_map") or {}
    return BackendSettings(
        name=name,
        models={role: str(model) for role, model in models.items()},
        command=tuple(config.get("command") or ()),
        is_local=bool(config.get("is_local")),
        **given(**{key: config.get(key) for key in _KEYS}),
    )
