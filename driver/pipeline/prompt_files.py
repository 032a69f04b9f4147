"""Prompts from files and their variables, and the default prompts of phases without a file.

A file is read from the commit that the wave starts from, never from an agent's tree. Each variable
is replaced once, so a value cannot contain a variable. Text of agents is in fences that it cannot
end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from driver.domain.prompts import MAX_DIFF_CHARS, build_prompt, command_text, quoted, rules
from driver.domain.work_item import WorkItem
from driver.pipeline.definition import DOCS, PR_DESCRIPTION
from state_store.values.lazy_dataclass import dataclass

MAX_BYTES = 1 << 20
_FILES = ("100644", "100755")
_VARIABLE = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*\}\}")


@dataclass(frozen=True, slots=True)
class PromptFacts:
    """The facts that a prompt may use. A text is "" if there is none."""

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


def _rules(facts: PromptFacts) -> str:
    common = rules(facts.item, with_rules=facts.with_rules).rstrip()
    if not facts.writes:
        return common
    listed = "\n".join(f"  {pattern}" for pattern in facts.writes)
    return f"{common}\n- In this step change only these of them:\n{listed}"


VARIABLES: Mapping[str, Callable[[PromptFacts], str]] = {
    "ITEM": lambda facts: facts.item.slug,
    "TITLE": lambda facts: facts.item.title or facts.item.slug,
    "TASK": lambda facts: facts.item.prompt.rstrip(),
    "FILES": lambda facts: "\n".join(facts.item.owns_files),
    "TEST_COMMAND": lambda facts: command_text(facts.item.test_command),
    "RULES": _rules,
    "DIFF": lambda facts: (
        quoted("The change so far, against the base", facts.diff, MAX_DIFF_CHARS)
        if facts.diff
        else ""
    ),
    "CHANGED_FILES": lambda facts: "\n".join(facts.changed),
    "FINDINGS": lambda facts: facts.findings,
    "GATE_STATUS": lambda facts: facts.gate_status,
    "ROUND": lambda facts: str(facts.round),
    "MAX_ROUNDS": lambda facts: str(facts.max_rounds),
    "SINCE_SHA": lambda facts: facts.since,
    "BASE_SHA": lambda facts: facts.base,
    "PHASE": lambda facts: facts.phase,
    "WAVE": lambda facts: facts.wave,
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
    """The reason why a git entry is no prompt file, by its mode and size; "" if it may be a
    prompt."""
    if mode not in _FILES:
        return "is a link or another repository; a prompt is a file"
    return f"has {size} bytes, more than the {MAX_BYTES} of a prompt" if size > MAX_BYTES else ""


def no_text(content: str) -> str:
    """The reason why a file's content, decoded as git's output, is no prompt; "" if it is one."""
    if "\0" in content or any("\ud800" <= c <= "\udfff" for c in content):
        return "is no text in UTF-8"
    return "" if content.strip() else "is empty"


def unknown_variables(text: str) -> tuple[str, ...]:
    """The variables of a file that have no value, each once."""
    return tuple(dict.fromkeys(n for n in _VARIABLE.findall(text) if n not in VARIABLES))


def rendered(text: str, facts: PromptFacts, *, writes: bool) -> str:
    """The prompt from a file. A writing agent gets the rules, even if the file does not
    name them."""
    filled = _VARIABLE.sub(lambda found: VARIABLES[found[1]](facts), text).rstrip()
    named = set(_VARIABLE.findall(text))
    if writes and "RULES" not in named:
        filled = f"{filled}\n\n{_rules(facts)}"
    return filled.rstrip() + "\n"


def own_prompt(name: str, facts: PromptFacts) -> str:
    """The prompt of a phase without a prompt file."""
    if name in _OWN:
        return rendered(_OWN[name], facts, writes=False)
    return build_prompt(facts.item, with_rules=facts.with_rules)
