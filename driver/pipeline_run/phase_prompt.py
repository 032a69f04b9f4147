"""What an agent's phase is told: the file of the wave's base commit, or the words of ours."""

from __future__ import annotations

from driver.agents.review_prompt import findings_prompt, findings_told, gate_status
from driver.domain.prompts import repair_prompt
from driver.domain.results import Attempt
from driver.domain.reviews import Review
from driver.pipeline.definition import ADDRESS, Phase
from driver.pipeline.prompt_files import Told, no_text, own_prompt, rendered, unknown_variables
from driver.run_state.context import Planned, Wave
from driver.workspace.repository_context import Workspace
from state_store.documents.errors import CannotRunError


def phase_prompt(
    planned: Planned,
    place: Workspace,
    wave: Wave,
    phase: Phase,
    work: Attempt | None = None,
    found: Review | None = None,
) -> str:
    """The whole prompt of one dispatch on `work`; `found` is what a reviewer asks to be changed."""
    told = _told(planned, place, wave, phase, work, found)
    if phase.prompt is not None:
        return rendered(prompt_file(planned, wave, phase), told, writes=phase.edits)
    if phase.name == ADDRESS and found is not None and work is not None:
        first = phase_prompt(planned, place, wave, planned.pipeline.first_agent)
        return findings_prompt(first, found, _diff(place, work))
    return own_prompt(phase.name, told)


def mending_prompt(planned: Planned, place: Workspace, wave: Wave, work: Attempt) -> str:
    """The first prompt and what is wrong with the work, as its test or the rules have it."""
    first = phase_prompt(planned, place, wave, planned.pipeline.first_agent)
    return repair_prompt(first, planned.item, work, _diff(place, work))


def check_prompts(planned: Planned, wave: Wave) -> None:
    """Read all prompt files of an item before anything is spent on it. Raises CannotRunError."""
    for phase in planned.pipeline.phases:
        prompt_file(planned, wave, phase)


def prompt_file(planned: Planned, wave: Wave, phase: Phase) -> str:
    """The text of a phase's prompt file, "" where it names none. Raises CannotRunError when the
    commit that the wave starts from has no such file, or one that is no prompt."""
    ground = wave.ground_of(planned)
    if phase.prompt is None:
        return ""
    if phase.prompt not in ground.paths:
        raise CannotRunError(f"phase {phase.name}: {phase.prompt} is not in {ground.base[:12]}")
    content = ground.text(phase.prompt)
    problem = no_text(content)
    if unknown := unknown_variables(content):
        problem = f"has unknown variables: {', '.join(unknown)}"
    if problem:
        where = f"{phase.prompt} of {ground.base[:12]}"
        raise CannotRunError(f"phase {phase.name}: {where} {problem}")
    return content


def _told(
    planned: Planned,
    place: Workspace,
    wave: Wave,
    phase: Phase,
    work: Attempt | None,
    found: Review | None,
) -> Told:
    caps = wave.performer(phase).driver.probe_capabilities()
    return Told(
        item=planned.item,
        wave=wave.wave_id,
        phase=phase.name,
        base=wave.ground_of(planned).base,
        since=found.tree if found else "",
        round=work.number if work else 1,
        max_rounds=planned.policy.repair_cap + 1,
        diff=_diff(place, work) if work else "",
        changed=tuple(change.path for change in work.changes) if work else (),
        findings=findings_told(found) if found else "",
        gate_status=gate_status(work) if work else "",
        writes=phase.writes,
        with_rules=caps.worker_filesystem_access,
    )


def _diff(place: Workspace, work: Attempt) -> str:
    return place.patch(work.tree).decode("utf-8", "replace")
