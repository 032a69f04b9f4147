"""Callers of the original project find each name, with its parameters and constants.

`source_signatures/<group>.json` maps modules to names, and each name to its parameters as in a
`def`, or to `= value` for a constant. Our function may take more parameters, if they are optional.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "source_signatures"
ROWS: list[tuple[str, str, str]] = [
    (module, name, told)
    for file in sorted(FOLDER.glob("*.json"))
    for module, names in json.loads(file.read_text(encoding="ascii")).items()
    for name, told in names.items()
]


@pytest.mark.parametrize(("module", "name", "told"), ROWS)
def test_a_name_of_the_source_is_there_as_its_callers_use_it(
    module: str, name: str, told: str
) -> None:
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if told.startswith("= "):
        assert plain(found) == json.loads(told.removeprefix("= "))
    else:
        assert callable(found)
        assert taken(found, count(told)) == f"({told})"


def plain(value: Any) -> Any:
    """A value as JSON has it: sets sorted, tuples as lists, paths as texts."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, tuple):
        return list(value)
    return str(value) if isinstance(value, Path) else value


def count(told: str) -> int:
    return len([one for one in told.split(", ") if one and one != "*"])


def taken(function: Callable[..., Any], most: int) -> str:
    """The first `most` parameters, and all other parameters that are not optional."""
    every = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    kept = [
        one.replace(annotation=inspect.Parameter.empty)
        for number, one in enumerate(every)
        if number < most or (one.default is one.empty and one.kind < one.VAR_POSITIONAL)
    ]
    return str(inspect.Signature(kept))


def test_the_table_has_rows() -> None:
    assert len(ROWS) > 20
