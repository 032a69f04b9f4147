"""Prompts from files: their variables, and the words of ours where a phase names no file.

A file is read from the commit that the wave starts from, never from an agent's tree. Values are put
in once, so nothing that stands in one is taken for a variable; what an agent wrote stands in fences
that it cannot end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from driver.domain.prompts import MAX_DIFF_CHARS, build_prompt, command_text, quoted, rules
from driver.domain.work_item import WorkItem
from driver.pipeline.definition import DOCS, PR_DESCRIPTION

MAX_BYTES = 1 << 20
_FILES = ("100644", "100755")
_VARIABLE = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}")


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """The facts that a prompt may use. Texts are as they are shown, "" where there is nothing."""

    item: WorkItem
    wave: str = ""
    phase: str = ""
    base: str = ""
    since: str = ""
    round: int = 1
    max_rounds: int = 1
    diff: str = ""
    changed: tuple[str, ...] = ()
    findings: str = ""
    gate_status: str = ""
    writes: tuple[str, ...] = ()
    with_rules: bool = True


def _rules(told: PromptFacts) -> str:
    common = rules(told.item, with_rules=told.with_rules).rstrip()
    if not told.writes:
        return common
    listed = "\n".join(f"  {pattern}" for pattern in told.writes)
    return f"{common}\n- In this step change no other of them than these:\n{listed}"


VARIABLES: Mapping[str, Callable[[PromptFacts], str]] = {
    "ITEM": lambda told: told.item.slug,
    "TITLE": lambda told: told.item.title or told.item.slug,
    "TASK": lambda told: told.item.prompt.rstrip(),
    "FILES": lambda told: "\n".join(told.item.owns_files),
    "TEST_COMMAND": lambda told: command_text(told.item.test_command),
    "RULES": _rules,
    "DIFF": lambda told: (
        quoted("The change so far, against the base", told.diff, MAX_DIFF_CHARS)
        if told.diff
        else ""
    ),
    "CHANGED_FILES": lambda told: "\n".join(told.changed),
    "FINDINGS": lambda told: told.findings,
    "GATE_STATUS": lambda told: told.gate_status,
    "ROUND": lambda told: str(told.round),
    "MAX_ROUNDS": lambda told: str(told.max_rounds),
    "SINCE_SHA": lambda told: told.since,
    "BASE_SHA": lambda told: told.base,
    "PHASE": lambda told: told.phase,
    "WAVE": lambda told: told.wave,
}

_OWN = {
    DOCS: (
        "The change below is done, proven, and read by others. Bring the documentation up to date"
        " with it: what people need to know to use it, and no more. Change nothing else.\n\n"
        "{{TASK}}\n\n{{DIFF}}\n\n{{RULES}}"
    ),
    PR_DESCRIPTION: (
        "Write the description of a pull request for the change below: what it does and why, how it"
        " was tested, what a reader should look at. Markdown, at most a page, no title line."
        " Change no file; your answer is the text, or the file that the variable"
        " TIDEGATE_ARTIFACT_FILE names where it is set.\n\n"
        "Title: {{TITLE}}\n\n{{TASK}}\n\n{{GATE_STATUS}}\n\n{{DIFF}}"
    ),
}


def no_file_of_text(mode: str, size: int) -> str:
    """Why what git holds under a prompt's name is no prompt file; "" where it may be one."""
    if mode not in _FILES:
        return "is a link or another repository; a prompt is a file"
    return f"has {size} bytes, more than the {MAX_BYTES} of a prompt" if size > MAX_BYTES else ""


def no_text(content: str) -> str:
    """Why a file's content, as git's is read, is no prompt; "" where it is one."""
    if "\0" in content or any("\ud800" <= c <= "\udfff" for c in content):
        return "is no text in UTF-8"
    return "" if content.strip() else "is empty"


def unknown_variables(text: str) -> tuple[str, ...]:
    """The variables of a file that nobody has a value for, each once."""
    return tuple(dict.fromkeys(n for n in _VARIABLE.findall(text) if n not in VARIABLES))


def rendered(text: str, told: PromptFacts, *, writes: bool) -> str:
    """The prompt that a file makes. Who writes is told the rules, wherever the file has them."""
    filled = _VARIABLE.sub(lambda found: VARIABLES[found[1]](told), text).rstrip()
    named = set(_VARIABLE.findall(text))
    if writes and "RULES" not in named:
        filled = f"{filled}\n\n{_rules(told)}"
    return filled.rstrip() + "\n"


def own_prompt(name: str, told: PromptFacts) -> str:
    """The prompt of a phase that names no file."""
    if name in _OWN:
        return rendered(_OWN[name], told, writes=False)
    return build_prompt(told.item, with_rules=told.with_rules)
