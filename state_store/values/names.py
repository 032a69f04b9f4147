"""The rules for names that become parts of files, branches, variables or keys. Pure.

A name that breaks its rule is refused where it is read. `driver.domain.ownership` has the rules for
paths of the project, and `state_store.documents.journal` makes a file name of any slug.
"""

from __future__ import annotations

from typing import Any

from state_store.values.lazy_pattern import lazy_pattern

WAVE_ID_RULE = "1 to 100 letters, digits, '.', '_' or '-'"
RESOURCE_PATTERN = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
RESOURCE_RULE = f"each of {WAVE_ID_RULE}"
VARIABLE_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*$"
USABLE = lazy_pattern("[A-Za-z0-9_-]")  # a slug needs one of these

_RESOURCE = lazy_pattern(RESOURCE_PATTERN[1:-1])
_PHASE = lazy_pattern("[a-z][a-z0-9-]{0,39}")
_AGENT = lazy_pattern("[A-Za-z0-9_-]+")


def is_wave_id(text: str) -> bool:
    """True for the id of a wave, which names files, folders and a branch."""
    return _RESOURCE.fullmatch(text) is not None and ".." not in text


def is_resource(raw: Any) -> bool:
    """True for the name of a resource that tests share, such as `db`."""
    return isinstance(raw, str) and _RESOURCE.fullmatch(raw) is not None


def is_phase(text: str) -> bool:
    """True for the name of a phase of a pipeline."""
    return _PHASE.fullmatch(text) is not None


def is_agent_id(text: str) -> bool:
    """True for the id of an agent, which names files of transcripts."""
    return _AGENT.fullmatch(text) is not None
