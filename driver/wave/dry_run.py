"""Describes a wave without running any of it: the manifest, the commands, the prompts."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.registry import driver_from
from driver.domain.prompts import build_prompt, command_text
from driver.domain.work_item import parse_manifest
from driver.pipeline.definition import AGENT, GATE, PUBLISH, REVIEW, Phase
from driver.pipeline.prompt_files import PromptFacts, own_prompt, rendered
from driver.run_state.plan import Planned

_LATER = {
    REVIEW: "(made when there is work: the change, its receipts and a nonce; docs/review.md)",
    PUBLISH: "(all verified items together, when each has its verdict)",
}


def describe_dry_run(
    driver: AgentDriver, manifest: Mapping[str, Any], plan: Sequence[Planned] = ()
) -> dict[str, Any]:
    """Keys: dry_run, backend, agent_command, manifest, prompts (slug to text); with a `plan` also
    pipelines (slug to a list of phases with command and prompt, unless it is in prompts). Raises
    ManifestError like a real run."""
    parsed = parse_manifest(manifest, new_wave_id=lambda: str(uuid.uuid4()))
    with_rules = driver.probe_capabilities().worker_filesystem_access
    prompts = {one.slug: build_prompt(one, with_rules=with_rules) for one in parsed.items}
    pipelines = {one.slug: _pipeline(driver, one, prompts.get(one.slug)) for one in plan}
    return {
        "dry_run": True,
        "backend": driver.describe(),
        "agent_command": list(driver.command_line()),
        "manifest": dict(manifest),
        "prompts": prompts,
        **({"pipelines": pipelines} if plan else {}),
    }


def _pipeline(driver: AgentDriver, planned: Planned, listed: str | None) -> list[dict[str, Any]]:
    """Every phase, including the phases that only a review calls. The prompt that is `listed`
    already is left out."""
    pipeline = planned.pipeline
    named = {phase.name for phase in pipeline.phases}
    called = {n: None for p in pipeline.phases for n in p.repair if n not in named}
    phases = (*pipeline.phases, *(pipeline.called(name) for name in called))
    return [_phase(driver, planned, phase, listed) for phase in phases]


def _phase(
    driver: AgentDriver, planned: Planned, phase: Phase, listed: str | None
) -> dict[str, Any]:
    entry: dict[str, Any] = {"phase": phase.name, "kind": phase.kind}
    if phase.kind in (AGENT, REVIEW):
        environ: Mapping[str, str] = {}
        own = driver_from(phase.backend, environ) if phase.backend else driver
        entry |= {"backend": own.name, "command": list(own.command_line())}
        if (prompt := _prompt_of(own, planned, phase)) != listed:
            entry["prompt"] = prompt
    if phase.kind == GATE:
        entry["commands"] = [*map(command_text, (planned.item.test_command, *phase.commands))]
    elif phase.commands:
        entry["commands"] = [*map(command_text, phase.commands)]
    return {**entry, **({"note": _LATER[phase.kind]} if phase.kind in _LATER else {})}


def _prompt_of(driver: AgentDriver, planned: Planned, phase: Phase) -> str | None:
    """The prompt of its agent, as far as it is known before the work."""
    if phase.kind == REVIEW:
        return planned.prompt_files.get(phase.prompt or "")
    rules = driver.probe_capabilities().worker_filesystem_access
    facts = PromptFacts(planned.item, phase=phase.name, writes=phase.writes, with_rules=rules)
    if phase.prompt is None:
        return own_prompt(phase.name, facts)
    return rendered(planned.prompt_files.get(phase.prompt, ""), facts, writes=phase.edits)
