"""Every configured backend looked at, without a token spent.

What a look at one shows is its own business (`AgentDriver.examine`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from driver.backend_api.driver import AgentDriver
from driver.backends.registry import driver_from, of_reviewer, review_driver_from
from driver.pipeline.definition import Pipeline
from driver.pipeline.tables import parse
from driver.terminal.check_result import CheckResult, failed, failed_as, named, passed
from driver.wave.item_pipelines import committed_prompts, prompt_problems
from driver.workspace.repository_info import RepositoryInfo
from state_store.documents.errors import InputError, TidegateError
from tools.settings.load import Settings
from tools.settings.schema import BackendSettings

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)


def secrets_of(settings: Settings) -> set[str]:
    """Values of the environment that no line may show, wherever a program took them from."""
    backends = [one for one in (settings.backend, settings.review_backend) if one is not None]
    keys = {one.api_key_env for one in backends}
    return {v for name, v in settings.environ.items() if name in keys or _SECRET.search(name)}


def check_backends(settings: Settings) -> Iterator[CheckResult]:
    """The main backend, then the reviewer's where it has one of its own. Raises nothing."""
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
    """Nothing where every item goes the classic way. Raises nothing."""
    if not settings.pipeline.phase:
        return
    try:
        pipeline = parse(settings.pipeline.phase, settings.pipeline.prompt_dir)
    except InputError as error:
        yield failed(NAME, "; ".join(error.problems), "correct [[pipeline.phase]]")
        return
    wrong = _prompt_problems(pipeline, settings, top) if top else []
    steps = ", ".join(phase.name for phase in pipeline.steps)
    yield failed_as(NAME, wrong[0]) if wrong else passed(NAME, steps)
    for phase in pipeline.phases:
        if phase.backend is not None:
            yield from named(f"{NAME}.{phase.name}", _phase_backend(phase.backend, settings))


def _prompt_problems(pipeline: Pipeline, settings: Settings, top: Path) -> list[str]:
    survey, target = RepositoryInfo(settings.environ), settings.ship.target or None
    files, problems = committed_prompts(pipeline, survey, top, target)
    return [*problems, *prompt_problems(pipeline, files)]


def _phase_backend(table: BackendSettings, settings: Settings) -> tuple[CheckResult, ...]:
    try:
        return driver_from(table, settings.environ, settings.prices).examine()
    except TidegateError as error:
        return (failed_as("settings", error),)
