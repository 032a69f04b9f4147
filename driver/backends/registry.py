"""The table of backends by name, and the drivers built from it.

Each adapter module builds its driver with its function `from_settings`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from driver.backend_api.driver import AgentDriver
from driver.backend_api.models import own_prices
from driver.backends.backend_settings import Environ, check_address
from driver.backends.cli.local_driver import LocalDriver
from state_store.documents.errors import InputError
from tools.settings.kinds import TokenPrice
from tools.settings.load import Settings
from tools.settings.schema import BackendSettings

# [backend] name, and the adapter's module in this package.
ADAPTERS: Mapping[str, str] = MappingProxyType(
    {
        "claude": "claude_code",
        "command": "command",
        "replay": "replay",
        "codex-cli": "codex_cli",
        "codex": "chat",
        "openai-compatible": "openai_compatible",
    }
)
NO_PRICES: Mapping[str, TokenPrice] = MappingProxyType({})


def driver_from(
    backend: BackendSettings, environ: Environ, prices: Mapping[str, TokenPrice] = NO_PRICES
) -> AgentDriver:
    """The backend named in the settings. Does not use the network.

    `prices` override the table in `models`, if the backend does not report its cost.

    Raises InputError for an unknown name or a missing setting.
    """
    if backend.name not in ADAPTERS:
        raise InputError(f"[backend] name: {unknown(backend.name)}")
    # Imported when needed, so that --help does not pay for the other backends.
    adapter = import_module(f"driver.backends.{ADAPTERS[backend.name]}")
    driver: AgentDriver = adapter.from_settings(backend, environ)
    driver.project_settings = backend.project_settings
    if isinstance(driver, LocalDriver):
        driver.prices = own_prices(prices)
        driver.named_login = backend.login
    return driver


def driver_of(settings: Settings) -> AgentDriver:
    """The main backend. Also checks the settings of the reviewer's backend.

    Raises InputError with the faults of both tables.
    """
    problems: list[str] = []
    try:
        driver = _checked(settings, settings.backend)
    except InputError as error:
        problems.extend(error.problems)
    try:
        if settings.review_backend is not None:
            _checked(settings, settings.review_backend)
    except InputError as error:
        problems.extend(map(of_reviewer, error.problems))
    if problems:
        raise InputError(problems)
    return driver


def review_driver_from(settings: Settings) -> AgentDriver | None:
    """The backend of `[review.backend]`; None if the main backend reviews.

    Raises InputError for an unknown name or a missing setting.
    """
    if settings.review_backend is None:
        return None
    try:
        return driver_from(settings.review_backend, settings.environ, settings.prices)
    except InputError as error:
        raise InputError([of_reviewer(problem) for problem in error.problems]) from error


def of_reviewer(sentence: str) -> str:
    """An error message about `[backend]`, changed to name the reviewer's table."""
    return sentence.replace("[backend]", "[review.backend]")


def unknown(name: str) -> str:
    """The error message for an unknown backend name, with a suggestion."""
    import difflib  # noqa: PLC0415 - only for an unknown name

    near = difflib.get_close_matches(name, ADAPTERS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(ADAPTERS)}"
    return f"unknown backend {name!r}; {hint}"


def _checked(settings: Settings, backend: BackendSettings) -> AgentDriver:
    driver = driver_from(backend, settings.environ, settings.prices)
    if isinstance(driver, LocalDriver) and driver.asks_base_url:
        check_address(backend)
    return driver
