"""Checks every configured backend with its `examine`, without spending tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from driver.backend_api.driver import AgentDriver
from driver.backends.registry import driver_from, of_reviewer, review_driver_from
from driver.pipeline.tables import parse
from driver.terminal.check_result import CheckResult, failed, failed_as, named, passed
from driver.wave.item_pipelines import committed_prompts, prompt_problems
from driver.workspace.repository_info import RepositoryInfo
from state_store.documents.errors import InputError, TidegateError
from tools.settings.load import Settings

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def secrets_of(settings: Settings) -> set[str]:
    """Returns the secret values of the environment, which no line may show."""
    backends = [one for one in (settings.backend, settings.review_backend) if one is not None]
    keys = {one.api_key_env for one in backends}
    return {v for name, v in settings.environ.items() if name in keys or _SECRET.search(name)}


def check_backends(settings: Settings) -> Iterator[CheckResult]:
    """Checks the main backend, then the reviewer's backend if it is another. Raises nothing."""
    main, environ = settings.backend, settings.environ
    yield from named("backend", _examined(lambda: driver_from(main, environ)))
    for check in named("review.backend", _examined(lambda: review_driver_from(settings))):
        detail, remedy = of_reviewer(check.detail), of_reviewer(check.remedy)
        yield replace(check, detail=detail, remedy=remedy)


def _examined(make: Callable[[], AgentDriver | None]) -> tuple[CheckResult, ...]:
    try:
        driver = make()
    except TidegateError as error:
        return (failed_as("settings", error),)
    return () if driver is None else driver.examine()


NAME = "pipeline"


def check_pipeline(settings: Settings, top: Path | None) -> Iterator[CheckResult]:
    """Checks the configured pipeline. Yields nothing for the classic order. Raises nothing."""
    if not settings.pipeline.phase:
        return
    try:
        pipeline = parse(settings.pipeline.phase, settings.pipeline.prompt_dir)
    except InputError as error:
        yield failed(NAME, "; ".join(error.problems), "correct [[pipeline.phase]]")
        return
    wrong: list[str] = []
    if top is not None:
        survey, target = RepositoryInfo(settings.environ), settings.ship.target or None
        files, wrong = committed_prompts(pipeline, survey, top, target)
        wrong += prompt_problems(pipeline, files)
    steps = ", ".join(phase.name for phase in pipeline.steps)
    yield failed_as(NAME, wrong[0]) if wrong else passed(NAME, steps)
    for phase in pipeline.phases:
        if phase.backend is not None:
            make = partial(driver_from, phase.backend, settings.environ, settings.prices)
            yield from named(f"{NAME}.{phase.name}", _examined(make))
