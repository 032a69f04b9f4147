"""No hostile name gets through the rules of names, nor into the name of a file or a branch."""

from __future__ import annotations

import re
from itertools import islice

import pytest

from driver.domain.commit_message import branch_names
from driver.domain.ownership import name_problem
from state_store.documents.journal import stored_slug
from state_store.values.names import (
    USABLE,
    VARIABLE_PATTERN,
    is_agent_id,
    is_phase,
    is_resource,
    is_wave_id,
)


def is_variable(name: str) -> bool:
    """The rule of the settings for variables."""
    return re.fullmatch(VARIABLE_PATTERN[1:-1], name) is not None


RULES = (is_wave_id, is_resource, is_phase, is_variable, is_agent_id)
HOSTILE = [
    "", " ", ".", "..", "../x", "/", "/etc", "a/b", "a\\b", "C:x", "a\0b", "\0", "a\n", "\na",
    "a\nb", "a\r", "a b", "a\u00a0", "\u0430bc", "\uff41", "\u212a", "\u0661", "a\u200d", "\u202ea",
    "a\u0301", "\ud800", "~", "$HOME", "`id`", "a;b", "a*", "a?", "{a}", "@{", "a" * 5_000,
]  # fmt: skip
ONLY_FILES = ["con", "CON", "nul.txt", "aux", "com1.log", "LPT9", ".git", ".GIT", "git~1", "a."]


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_no_rule_takes_a_hostile_name(name: str) -> None:
    unlimited = (is_variable, is_agent_id)  # have no limit of length: they are no new file's name
    taking = [rule for rule in RULES if rule(name) and not (len(name) > 100 and rule in unlimited)]
    assert taking == []


@pytest.mark.parametrize("rule", [is_wave_id, is_resource, is_phase, is_variable])
def test_no_name_looks_like_an_option(rule: object) -> None:
    assert callable(rule)
    assert not rule("-x")
    assert not rule("--force")


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        (is_wave_id, ["w", "2026-01-01.a_b", "9", "a" * 100, "con"]),
        (is_resource, ["db", "DB_1", "port.5432"]),
        (is_phase, ["build", "a-1", "a" * 40]),
        (is_variable, ["PATH", "_x", "a1"]),
        (is_agent_id, ["-x", "agent_1"]),
    ],
)
def test_usual_names_are_taken(rule: object, names: list[str]) -> None:
    assert callable(rule)
    assert all(map(rule, names))


def test_a_wave_is_no_way_up() -> None:
    assert not is_wave_id("a..b")
    assert is_resource("a..b")


@pytest.mark.parametrize("name", [*HOSTILE, *ONLY_FILES, "-x"], ids=ascii)
def test_a_file_made_of_any_slug_has_a_plain_name(name: str) -> None:
    """The journal and the folders of items; a usable slug is one that has such a name."""
    if "\ud800" in name:
        return  # is refused before, as it is no Unicode
    made = stored_slug(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,240}", made)
    assert bool(USABLE.search(name)) == (name == made or "-" in made)


@pytest.mark.parametrize("name", [*HOSTILE, *ONLY_FILES, "-x"], ids=ascii)
def test_a_branch_made_of_any_wave_is_one_that_git_takes(name: str) -> None:
    for branch in islice(branch_names(name, "2026-01-01"), 3):
        assert re.fullmatch(r"wave/2026-01-01-[A-Za-z0-9_-]{1,80}", branch)


@pytest.mark.parametrize(
    "name", ["..", *ONLY_FILES, "a\0b", "a\r", "\u202ea", "a*", "C:x", "\ud800"]
)
def test_a_path_of_an_item_has_no_hostile_part(name: str) -> None:
    assert name_problem(name)
