"""Builds the prompt of a phase from its file in the wave's base commit, or from our own words."""

from __future__ import annotations

from driver.agents.review_prompt import findings_prompt, findings_told, gate_status
from driver.domain.prompts import repair_prompt
from driver.domain.results import Attempt
from driver.domain.reviews import Review
from driver.pipeline.definition import ADDRESS, Phase
from driver.pipeline.prompt_files import (
    PromptFacts,
    no_text,
    own_prompt,
    rendered,
    unknown_variables,
)
from driver.run_state.context import ItemRun
from state_store.documents.errors import CannotRunError


def phase_prompt(
    item: ItemRun,
    phase: Phase,
    work: Attempt | None = None,
    found: Review | None = None,
) -> str:
    """The whole prompt of one dispatch on `work`; `found` is what a reviewer asks to be changed."""
    told = _told(item, phase, work, found)
    if phase.prompt is not None:
        return rendered(prompt_file(item, phase), told, writes=phase.edits)
    if phase.name == ADDRESS and found is not None and work is not None:
        first = phase_prompt(item, item.pipeline.first_agent)
        return findings_prompt(first, found, _diff(item, work))
    return own_prompt(phase.name, told)


def repair_prompt_for(item: ItemRun, work: Attempt) -> str:
    """The first prompt and what is wrong with the work, as its test or the rules have it."""
    first = phase_prompt(item, item.pipeline.first_agent)
    return repair_prompt(first, item.spec, work, _diff(item, work))


def check_prompts(item: ItemRun) -> None:
    """Read all prompt files of an item before anything is spent on it. Raises CannotRunError."""
    for phase in item.pipeline.phases:
        prompt_file(item, phase)


def prompt_file(item: ItemRun, phase: Phase) -> str:
    """The text of a phase's prompt file, "" where it names none. Raises CannotRunError when the
    commit that the wave starts from has no such file, or one that is no prompt."""
    context = item.context
    if phase.prompt is None:
        return ""
    if phase.prompt not in context.paths:
        raise CannotRunError(f"phase {phase.name}: {phase.prompt} is not in {context.base[:12]}")
    content = context.text(phase.prompt)
    problem = no_text(content)
    if unknown := unknown_variables(content):
        problem = f"has unknown variables: {', '.join(unknown)}"
    if problem:
        where = f"{phase.prompt} of {context.base[:12]}"
        raise CannotRunError(f"phase {phase.name}: {where} {problem}")
    return content


def _told(
    item: ItemRun,
    phase: Phase,
    work: Attempt | None,
    found: Review | None,
) -> PromptFacts:
    caps = item.wave.backend_of(phase).driver.probe_capabilities()
    return PromptFacts(
        item=item.spec,
        wave=item.wave.wave_id,
        phase=phase.name,
        base=item.context.base,
        since=found.tree if found else "",
        round=work.number if work else 1,
        max_rounds=item.planned.policy.repair_cap + 1,
        diff=_diff(item, work) if work else "",
        changed=tuple(change.path for change in work.changes) if work else (),
        findings=findings_told(found) if found else "",
        gate_status=gate_status(work) if work else "",
        writes=phase.writes,
        with_rules=caps.worker_filesystem_access,
    )


def _diff(item: ItemRun, work: Attempt) -> str:
    return item.workspace.patch(work.tree).decode("utf-8", "replace")
