"""Reads the backend settings that several adapters share, and defines their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from driver.backend_api.driver import MODEL_ROLES
from driver.backends.cli.local_driver import LocalOptions
from driver.backends.http.endpoint import endpoint
from state_store.documents.errors import InputError
from tools.settings.schema import BackendSettings

Environ = Mapping[str, str]


class BackendConfigError(InputError, ValueError):
    """A backend configuration is wrong."""


def models_of(backend: BackendSettings) -> dict[str, str]:
    """The models in the settings by role. `model` is the default of every role."""
    everywhere = dict.fromkeys(MODEL_ROLES, backend.model) if backend.model else {}
    return {**everywhere, **backend.models}


def local_options(backend: BackendSettings, environ: Environ) -> LocalOptions:
    """The options of a backend that runs programs."""
    options = LocalOptions(environ=environ, env=backend.env, timeout_s=backend.timeout_s)
    if backend.stall_s is not None:
        options["stall_s"] = backend.stall_s
    if backend.max_retries is not None:
        options["retries"] = backend.max_retries
    return options


def check_address(backend: BackendSettings) -> None:
    """Raise BackendConfigError for a forbidden `base_url`."""
    if not backend.base_url:
        return
    try:
        endpoint(backend.base_url)
    except ValueError as error:
        raise BackendConfigError(f"[backend] base_url cannot be used: {error}") from error


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None; for all others the backend's defaults apply."""
    return {key: value for key, value in values.items() if value not in (None, ())}
