"""Reads a pipeline from its tables, and reports every problem of every phase at once. The keys are
the same in `[[pipeline.phase]]` of a configuration and in an item's `pipeline`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from driver.backend_api.driver import EFFORT_LEVELS
from driver.domain.prompts import command_text
from driver.domain.results import BASELINE, BUILD, INTEGRATION, REPAIR, RESUME
from driver.pipeline.definition import (
    ADDRESS,
    AGENT,
    DOCS,
    GATE,
    HERMETIC,
    IMPLEMENT,
    KINDS,
    PERMISSIONS,
    PR_DESCRIPTION,
    PROOF,
    PUBLISH,
    REVIEW,
    SETUP,
    Phase,
    Pipeline,
)
from driver.test_command.exit_code_rules import command_problems
from state_store.documents.errors import InputError
from state_store.values.names import is_phase
from tools.settings import kinds as setting_kinds
from tools.settings import schema as settings_schema
from tools.settings.kinds import Kind
from tools.settings.schema import BackendSettings
from tools.settings.sources import nearest

MAX_PHASES = 40
_SPOKEN_FOR = frozenset({BUILD, REPAIR, RESUME, INTEGRATION, BASELINE, PROOF})
_WITH_PROMPT = (IMPLEMENT, ADDRESS, DOCS, PR_DESCRIPTION)  # these have default prompts

PHASE_KEYS: Mapping[str, Kind] = {
    "name": setting_kinds.TEXT,
    "kind": setting_kinds.one_of(*KINDS),
    "prompt": Kind(
        "the name of a file below prompt_dir",
        setting_kinds.inside_one,
        shape=setting_kinds.FOLDER.shape,
    ),
    "repair": setting_kinds.ARGUMENTS,
    "commands": setting_kinds.COMMANDS,
    "writes": setting_kinds.PATTERNS,
    "model": setting_kinds.TEXT,
    "effort": setting_kinds.one_of(*EFFORT_LEVELS),
    "timeout_s": setting_kinds.SECONDS,
    "retries": setting_kinds.whole_number(0, 10),
    "permissions": setting_kinds.one_of(*PERMISSIONS),
    "requires_clean_tree": setting_kinds.SWITCH,
    "hermetic": setting_kinds.one_of(*HERMETIC),
}
# Keys that only some kinds of phases have.
_FOR: Mapping[str, tuple[str, ...]] = {
    "prompt": (AGENT, REVIEW),
    "repair": (REVIEW,),
    "commands": (SETUP, GATE),
    "writes": (AGENT,),
    "backend": (AGENT, REVIEW),
    "model": (AGENT, REVIEW),
    "effort": (AGENT, REVIEW),
    "timeout_s": (AGENT, REVIEW),
    "retries": (AGENT, REVIEW),
    "permissions": (AGENT,),
    "requires_clean_tree": (AGENT, GATE, REVIEW),
    "hermetic": (AGENT, GATE, REVIEW),
}


def parse(tables: object, prompt_dir: str) -> Pipeline:
    """The pipeline in a list of tables. Raises InputError with every problem."""
    if not isinstance(tables, list | tuple) or not tables:
        raise InputError("a pipeline is a list of phases, at least one")
    if len(tables) > MAX_PHASES:
        raise InputError(f"a pipeline has at most {MAX_PHASES} phases")
    problems: list[str] = []
    read = [_phase(n, one, prompt_dir, problems) for n, one in enumerate(tables, start=1)]
    phases = tuple(phase for phase in read if phase is not None)
    if len(phases) == len(read):
        problems += _together(phases)
    if problems:
        raise InputError(problems)
    return Pipeline(phases)


def _phase(number: int, table: object, prompt_dir: str, problems: list[str]) -> Phase | None:
    if not isinstance(table, Mapping):
        problems.append(f"phase {number} must be a table of keys")
        return None
    name = f"phase {table.get('name')!r}" if table.get("name") else f"phase {number}"
    known = dict.fromkeys((*PHASE_KEYS, "backend"))
    found = [
        f"{key!r} is no key of a phase{nearest(str(key), known)}"
        for key in table
        if key not in known
    ]
    values = {key: _value(PHASE_KEYS[key], key, table, found) for key in table if key in PHASE_KEYS}
    found += [f"{key} is missing" for key in ("name", "kind") if table.get(key) is None]
    if "backend" in table:
        values["backend"] = _backend(table["backend"], found)
    if not found:
        found += _alone(values)
    problems += [f"{name}: {problem}" for problem in found]
    if found:
        return None
    if "prompt" in values:
        values["prompt"] = f"{prompt_dir}/{values['prompt']}".removeprefix("./")
    return Phase(**values)


def _value(kind: Kind, key: str, table: Mapping[str, Any], found: list[str]) -> Any:
    try:
        return kind.accept(table[key])
    except (ValueError, OverflowError):
        found.append(f"{key} must be {kind.says}, not {repr(table[key])[:60]}")
        return None


def _backend(raw: object, found: list[str]) -> BackendSettings | None:
    if not isinstance(raw, Mapping):
        found.append("backend must be a table with the keys of [backend]")
        return None
    values: dict[str, Any] = {}
    known = {
        k.removeprefix("backend."): v
        for k, v in settings_schema.KINDS.items()
        if k.startswith("backend.")
    }
    for key in raw:
        if key not in known:
            found.append(f"backend.{key} is no known key{nearest(str(key), known)}")
        else:
            shown: list[str] = []
            values[key] = _value(known[key], key, raw, shown)
            private = known[key].private
            found += [f"backend.{key} must be {known[key].says}"] if shown and private else []
            found += [f"backend.{problem}" for problem in shown if not private]
    return None if found else BackendSettings(**values)


def _alone(values: Mapping[str, Any]) -> Iterator[str]:
    """The problems of a single phase."""
    name, kind = values["name"], values["kind"]
    if not is_phase(name) or name in _SPOKEN_FOR:
        yield "a name has small letters, digits and -, begins with a letter, and is not a word" + (
            f" of Tidegate's own ({', '.join(sorted(_SPOKEN_FOR))})"
        )
    for key in values:
        if kind not in _FOR.get(key, KINDS):
            yield f"{key} has no meaning for a phase of the kind {kind}"
    if kind == AGENT and "prompt" not in values and name not in _WITH_PROMPT:
        yield f"prompt is missing: only {', '.join(_WITH_PROMPT)} have a default prompt"
    if values.get("permissions") == "read-only" and values.get("writes"):
        yield "a read-only phase cannot write: remove writes or permissions"
    for command in values.get("commands") or ():
        for problem in command_problems(command, pipefail=os.name != "nt"):
            yield f"commands: `{command_text(command)}`: {problem}"


def _together(phases: Sequence[Phase]) -> Iterator[str]:
    """The problems of phases in combination."""
    counts = Counter(phase.name for phase in phases)
    yield from (f"two phases are called {name!r}" for name, n in counts.items() if n > 1)
    steps = Pipeline(tuple(phases)).steps
    if not any(phase.edits for phase in steps):
        yield 'no step does the work: add an "agent" phase that may write, such as "implement"'
        return
    for kind in (SETUP, REVIEW, PUBLISH):
        if sum(phase.kind == kind for phase in steps) > 1:
            yield f"a pipeline has at most one phase of the kind {kind}"
    yield from _misplaced(steps)
    for review in (phase for phase in steps if phase.kind == REVIEW):
        yield from _repairs(review, phases)


def _misplaced(steps: Sequence[Phase]) -> Iterator[str]:
    kinds = [phase.kind for phase in steps]
    if SETUP in kinds[1:]:
        yield "a phase of the kind setup must be the first"
    if PUBLISH in kinds[:-1]:
        yield "a phase of the kind publish must be the last: all items are shipped together"
    first = next(n for n, phase in enumerate(steps) if phase.edits)
    for phase in steps[:first]:
        if phase.kind != SETUP:
            yield f"phase {phase.name!r} has no work yet: put it after {steps[first].name!r}"
    if steps[first].writes:
        yield f"phase {steps[first].name!r}: ownsFiles limits the first agent: remove writes"
    if REVIEW in kinds:
        for phase in steps[kinds.index(REVIEW) :]:
            if phase.edits and not phase.writes:
                yield (
                    f"phase {phase.name!r} may change approved work: list in `writes` the paths"
                    ' that need no review, such as ["docs/", "*.md"], or put it before the review'
                )


def _repairs(review: Phase, phases: Sequence[Phase]) -> Iterator[str]:
    pipeline, where = Pipeline(tuple(phases)), f"phase {review.name!r}: repair"
    known = {phase.name for phase in phases} | {ADDRESS, GATE}
    called = [pipeline.called(name) for name in review.repair if name in known]
    for name in review.repair:
        if name not in known or pipeline.called(name).kind not in (AGENT, GATE):
            yield f"{where} names {name!r}, which is no phase of the kind agent or gate"
    for phase in called:
        if phase.kind == AGENT and not phase.edits:
            yield f"{where} names {phase.name!r}, which may not write"
    kinds = [phase.kind for phase in called]
    if kinds and (kinds[0] != AGENT or AGENT in kinds[1:]):
        yield f'{where} must be one agent, then optional gates, such as ["address", "gate"]'
