"""Each item's pipeline, checked before it costs anything: tables, prompt files, backends, names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from driver.backend_api.driver import AgentDriver
from driver.backends.registry import driver_from
from driver.domain.reviews import OFF, is_required
from driver.pipeline import position
from driver.pipeline.definition import CLASSIC, REVIEW, Pipeline
from driver.pipeline.prompt_files import no_file_of_text, no_text, unknown_variables
from driver.pipeline.tables import parse
from driver.run_state.plan import Planned
from driver.wave.preflight import PreflightError, check_ready
from driver.workspace.repository_info import RepositoryInfo
from state_store.documents.errors import InputError
from tools.settings.load import Settings


def with_pipelines(
    plan: Sequence[Planned],
    settings: Settings,
    survey: RepositoryInfo,
    from_phase: str | None,
    target: str | None,
) -> tuple[Planned, ...]:
    """The items with their pipelines and prompt files. Prompt files come from the branch `target`,
    else from the checkout's HEAD. Raises PreflightError with every problem."""
    problems: list[str] = []
    general = _parsed(settings.pipeline.phase, settings, "[pipeline]", problems)
    found = [_with_its_own(one, general, settings, problems) for one in plan]
    for n, planned in enumerate(found):
        if planned.home.top is not None:
            pipeline, home = planned.pipeline, planned.home.top
            files, wrong = committed_prompts(pipeline, survey, home, target)
            problems += [f"item {planned.slug!r}: {problem}" for problem in wrong]
            found[n] = replace(planned, prompt_files=files)
    for planned in found:
        top = planned.home.top
        # If only the remote has the branch, its files are read when the wave begins.
        seen = target is None or top is None or survey.has_branch(top, target)
        problems += [f"item {planned.slug!r}: {p}" for p in _problems(planned, settings, seen)]
        if from_phase is not None and position.before(planned.pipeline, from_phase) is None:
            steps = ", ".join(phase.name for phase in planned.pipeline.steps)
            problems.append(f"--from-phase {from_phase}: item {planned.slug!r} has {steps}")
    if problems:
        raise PreflightError("invalid_input", list(dict.fromkeys(problems)))
    return tuple(found)


def _parsed(
    tables: Sequence[object], settings: Settings, where: str, problems: list[str]
) -> Pipeline:
    if not tables:
        return CLASSIC
    try:
        return parse(tables, settings.pipeline.prompt_dir)
    except InputError as error:
        problems += [f"{where}: {problem}" for problem in error.problems]
        return CLASSIC


def _with_its_own(
    planned: Planned, general: Pipeline, settings: Settings, problems: list[str]
) -> Planned:
    """The item's own pipeline overrides the configuration's. A review in it is required."""
    own, where = planned.item.pipeline, f"item {planned.slug!r}, pipeline"
    pipeline = general if own is None else _parsed(own, settings, where, problems)
    policy = planned.policy
    if pipeline.explicit and pipeline.review is not None:
        policy = replace(policy, require_review=True)
    return replace(planned, pipeline=pipeline, policy=policy)


def committed_prompts(
    pipeline: Pipeline, survey: RepositoryInfo, top: Path, target: str | None
) -> tuple[dict[str, str], list[str]]:
    """Returns the committed prompt files by path, and the problems of invalid files. The text of an
    invalid file is ""."""
    found, problems = dict[str, str](), list[str]()
    for path in sorted({phase.prompt for phase in pipeline.phases if phase.prompt}):
        mode, size = survey.committed_as(top, path, target)
        if not mode.startswith("1"):
            continue
        problem = no_file_of_text(mode, size)
        text = "" if problem else survey.committed_text(top, path, target) or ""
        if problem := problem or no_text(text):
            problems.append(f"{path} {problem}")
        found[path] = "" if problem else text
    return found, problems


def prompt_problems(pipeline: Pipeline, files: Mapping[str, str]) -> Iterator[str]:
    """Yields the phases whose prompt file is not committed or has unknown variables."""
    for phase in (phase for phase in pipeline.phases if phase.prompt):
        text = files.get(phase.prompt or "")
        if text is None:
            yield f"phase {phase.name!r}: {phase.prompt} is in no commit: commit the prompt file"
        elif unknown := unknown_variables(text):
            wrong = f"{phase.prompt} has unknown variables: {', '.join(unknown)}"
            yield f"phase {phase.name!r}: {wrong}; docs/pipeline.md lists them"


def _problems(planned: Planned, settings: Settings, seen: bool) -> Iterator[str]:
    pipeline = planned.pipeline
    if not pipeline.explicit:
        return
    if planned.home.top is None:
        yield "it has a pipeline but is in no repository: put it under git, or remove the pipeline"
        return
    required = is_required(required=planned.policy.require_review, mode=settings.review.mode)
    if required and pipeline.review is None:
        yield (
            "it needs a review, but its pipeline has no phase of the kind"
            f' {REVIEW}: add one, or set [review] mode = "{OFF}" or its'
            " requireAdversarialReview = false"
        )
    if seen:
        yield from prompt_problems(pipeline, planned.prompt_files)


def phase_drivers(plan: Sequence[Planned], settings: Settings) -> dict[str, AgentDriver]:
    """The backends of these items' phases, by their keys. Raises InputError for invalid settings
    and PreflightError (exit 4) for a backend that is not ready."""
    found: dict[str, AgentDriver] = {}
    for phase in (phase for planned in plan for phase in planned.pipeline.phases):
        if phase.backend is None or phase.backend_key in found:
            continue
        where = f"[pipeline.phase.backend] of {phase.name}"

        def worded(problem: str, where: str = where) -> str:
            return problem.replace("[backend]", where)

        try:
            driver = driver_from(phase.backend, settings.environ, settings.prices)
        except InputError as error:
            raise InputError([worded(problem) for problem in error.problems]) from error
        check_ready(driver, worded)
        found[phase.backend_key] = driver
    return found
