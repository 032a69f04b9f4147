"""Every configured backend looked at, without a token spent.

What a look at one shows is its own business (`AgentDriver.examine`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from driver.backend_api.driver import AgentDriver
from driver.backends.registry import driver_from, of_reviewer, review_driver_from
from driver.terminal.check_result import Check, failed_as, named
from state_store.errors import TidegateError
from tools.settings import Settings

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def secrets_of(settings: Settings) -> set[str]:
    """Values of the environment that no line may show, wherever a program took them from."""
    backends = [one for one in (settings.backend, settings.review_backend) if one is not None]
    keys = {one.api_key_env for one in backends}
    return {v for name, v in settings.environ.items() if name in keys or _SECRET.search(name)}


def check_backends(settings: Settings) -> Iterator[Check]:
    """The main backend, then the reviewer's where it has one of its own. Raises nothing."""
    main, environ = settings.backend, settings.environ
    yield from named("backend", _examined(lambda: driver_from(main, environ)))
    for check in named("review.backend", _examined(lambda: review_driver_from(settings))):
        detail, remedy = of_reviewer(check.detail), of_reviewer(check.remedy)
        yield replace(check, detail=detail, remedy=remedy)


def _examined(make: Callable[[], AgentDriver | None]) -> tuple[Check, ...]:
    try:
        driver = make()
    except TidegateError as error:
        return (failed_as("settings", error),)
    return () if driver is None else driver.examine()
