"""All that callers rely on: names, flags, settings, keys, words and exit codes stay as recorded.

The record is public_names.json and public_keys.json beside this file. Where a change is meant,
`python tests/contracts/record_public_names.py` writes them anew, and the difference is reviewed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.support import public_keys, public_names
from tests.support.programs import (
    ROOT,
    SCHEDULER,
    Project,
    call,
    environment,
    item,
    make_template,
    run,
    run_here,
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the waves start POSIX programs")

HERE = Path(__file__).parent
NAMES: dict[str, Any] = json.loads((HERE / "public_names.json").read_text(encoding="ascii"))
KEYS: dict[str, list[str]] = json.loads((HERE / "public_keys.json").read_text(encoding="ascii"))
UNKNOWN = "--no-such-flag-at-all"
UPDATE = "if it is meant: python tests/contracts/record_public_names.py"


def differences(recorded: list[str], found: list[str]) -> list[str]:
    """The missing lines with -, the new ones with +."""
    gone = [f"- {line}" for line in recorded if line not in found]
    return gone + [f"+ {line}" for line in found if line not in recorded]


@pytest.mark.parametrize("module", NAMES["names"])
def test_every_name_can_be_imported_and_is_called_as_before(module: str) -> None:
    recorded = NAMES["names"][module]
    found = {name: described(module, name) for name in recorded}
    assert found == recorded


def described(module: str, name: str) -> str:
    try:
        return public_names.described(module, name)
    except (ImportError, AttributeError) as error:
        return f"gone: {error}"


@pytest.mark.parametrize("module", NAMES["defined in the door"])
def test_a_door_is_the_implementation_so_that_replacing_a_name_in_it_counts(module: str) -> None:
    names = NAMES["defined in the door"][module]
    door = import_module(module)
    package, _, own = module.rpartition(".")
    assert getattr(import_module(package), own) is door
    assert sys.modules[module] is door
    homes = public_names.implementations(module, names)
    assert [name for name in names if vars(homes[name]) is not vars(door)] == []


def test_these_are_the_programs() -> None:
    assert public_names.program_files() == sorted(NAMES["programs"])


@pytest.mark.parametrize("program", NAMES["programs"])
def test_every_program_has_the_same_flags_and_refuses_others(program: str, tmp_path: Path) -> None:
    shown = run(ROOT / program, "--help", cwd=tmp_path)
    assert (shown.code, shown.out.partition(" ")[0], shown.err) == (0, "usage:", "")
    for command, needed in public_names.commands_of(program).items():
        assert run_here(ROOT / program, *command, "--help", cwd=tmp_path).code == 0, command
        refused = run_here(ROOT / program, *command, *needed, UNKNOWN, cwd=tmp_path)
        assert (refused.code, refused.out) == (2, ""), command
        assert UNKNOWN in refused.err
    found = public_names.flags_of(program, shown.out)
    assert differences(NAMES["programs"][program], found) == [], UPDATE


@pytest.mark.parametrize("command", NAMES["programs"]["driver/tidegate.py"])
def test_tidegate_hands_over_to_each_program(command: str) -> None:
    shown = call(import_module("driver.tidegate").main, command, "--help")
    assert shown.code == 0
    assert shown.out.startswith("usage: ")


def test_every_document_has_the_same_keys(tmp_path: Path) -> None:
    found = public_keys.documents(tmp_path)
    assert sorted(found) == sorted(KEYS)
    changed = {name: differences(KEYS[name], found[name]) for name in KEYS}
    assert {name: lines for name, lines in changed.items() if lines} == {}, UPDATE


def test_every_setting_and_variable_is_known_by_its_name(tmp_path: Path) -> None:
    names, variables = NAMES["settings"], NAMES["variables"]
    told = public_keys.refused_settings(tmp_path, names, variables)
    assert "no known key" not in told
    for name in (*names, *variables):
        assert re.search(rf"(^|[ ;]){re.escape(name)} must be ", told), name


def test_a_setting_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    told = public_keys.refused_settings(tmp_path, ["nonsense", "ship.nonsense"], [])
    assert "nonsense is no known key" in told
    assert "ship.nonsense is no known key" in told


def test_every_key_of_an_item_is_checked_and_others_are_kept(tmp_path: Path) -> None:
    project = Project(tmp_path, make_template(tmp_path / "template"))
    assert public_keys.refused_items(project) == NAMES["wrong items"]


def test_two_items_of_one_name_are_bad_input(tmp_path: Path) -> None:
    project = Project(tmp_path, make_template(tmp_path / "template"))
    project.track(item("twice"), item("twice"))
    ran = project.schedule()
    assert ran.code == 2
    assert "duplicate_id: " in ran.report["error"]
    assert "duplicate_slug: " in ran.report["error"]


def test_where_there_is_no_git_the_exit_code_is_4(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    without = {**environment(tmp_path), "PATH": str(tmp_path / "bin")}
    assert run(SCHEDULER, "--execute", "--demo", "demo", cwd=tmp_path, env=without).code == 4


@pytest.mark.parametrize("group", NAMES["closed words"])
def test_a_closed_set_of_words_is_one_enumeration(group: str) -> None:
    words = tuple(sorted(NAMES["closed words"][group]))
    found = public_names.enums()
    assert words in found, [name for one, name in found.items() if set(one) & set(words)]


@pytest.mark.parametrize("group", NAMES["words"])
def test_every_word_of_a_report_is_in_code_and_docs(group: str) -> None:
    docs = "".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("docs/*.md")))
    code = public_names.literals()
    words = NAMES["words"][group]
    assert [word for word in words if f"`{word}`" not in docs] == []
    assert [word for word in words if f'"{word}"' not in code] == []
