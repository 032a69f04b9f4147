"""Whether the configured pipeline can be run: its tables, its prompt files, its phases' backends.

An item's own pipeline and what its policy asks of one are looked at by a dry run, not here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from driver.backends.registry import driver_from
from driver.pipeline.definition import Pipeline
from driver.pipeline.prompt_files import unknown_variables
from driver.pipeline.tables import parse
from driver.terminal.check_result import Check, failed, failed_as, named, passed
from driver.workspace.repository_info import Survey
from state_store.errors import InputError, TidegateError
from tools.settings import Settings
from tools.settings_schema import BackendSettings

NAME = "pipeline"


def check_pipeline(settings: Settings, top: Path | None) -> Iterator[Check]:
    """Nothing where every item goes the classic way. Raises nothing."""
    if not settings.pipeline.phase:
        return
    try:
        pipeline = parse(settings.pipeline.phase, settings.pipeline.prompt_dir)
    except InputError as error:
        yield failed(NAME, "; ".join(error.problems), "correct [[pipeline.phase]]")
        return
    wrong = list(_prompt_problems(pipeline, settings, top)) if top else []
    steps = ", ".join(phase.name for phase in pipeline.steps)
    yield failed_as(NAME, wrong[0]) if wrong else passed(NAME, steps)
    for phase in pipeline.phases:
        if phase.backend is not None:
            yield from named(f"{NAME}.{phase.name}", _phase_backend(phase.backend, settings))


def _phase_backend(table: BackendSettings, settings: Settings) -> tuple[Check, ...]:
    try:
        return driver_from(table, settings.environ, settings.prices).examine()
    except TidegateError as error:
        return (failed_as("settings", error),)


def _prompt_problems(pipeline: Pipeline, settings: Settings, top: Path) -> Iterator[str]:
    survey = Survey(settings.environ)
    for phase in (phase for phase in pipeline.phases if phase.prompt):
        text = survey.committed_text(top, phase.prompt or "", settings.ship.target)
        if text is None:
            yield f"phase {phase.name!r}: {phase.prompt} is in no commit: commit the prompt file"
        elif unknown := unknown_variables(text):
            told = f"{phase.prompt} has variables nobody knows: {', '.join(unknown)}"
            yield f"phase {phase.name!r}: {told}; docs/pipeline.md lists them"
