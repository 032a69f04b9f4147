"""Wrong work that looks right does not ship at grade A, and honest work does: whole waves on git.

`python -m pytest -m sweep -s tests/attacks/test_false_green.py` plays every case, without walls and
inside of them, and prints the table; a sample is always played.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from driver.walls.wall import Level
from tests.support.beside import beside_each_other
from tests.support.corpus import Case, Played, Project, play
from tests.support.corpus_all import (
    ATTACKS,
    HONEST,
    NOT_COVERED,
    PARTS,
    Corpus,
    attack_table,
    honest_table,
    lower_table,
    names,
    not_covered_table,
    playable,
    sampled_attacks,
    sampled_honest_work,
    size,
)
from tests.support.repos import SANDBOX
from tests.support.walls import needs

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

DOCUMENT = Path(__file__).parents[2] / "docs/verification.md"
MAX_REFUSED = 1
AUTO = "auto"


def _play(folder: Path, corpus: Corpus) -> list[tuple[Project, Played]]:
    def play_one(folder: Path, number: int) -> list[tuple[Project, Played]]:
        project, cases = found[number]
        return [(project, played) for played in play(folder / "it", project, cases)]

    found = playable(corpus)
    results = beside_each_other(play_one, range(len(found)), folder)
    return [one for result in results.values() for one in result.result()]


def _missed(played: list[tuple[Project, Played]]) -> list[str]:
    """Attacks that became something else than the corpus says, that shipped and are not to be
    read first, or that would have fooled nobody."""
    return [
        f"{project.name}: {one.case.name}: {_became(one)}: {one.reason}"
        for project, one in played
        if (one.grade if one.read_first else one.defence) not in one.case.caught.split(" or ")
        or not (one.fooled or one.defence == "command")
    ]


def _missed_inside(played: list[tuple[Project, Played]]) -> list[str]:
    """Attacks that shipped otherwise than the corpus says. Walls stop many before their defence."""
    return [
        f"{project.name}: {one.case.name}: {_became(one)}: {one.reason}"
        for project, one in played
        if one.shipped and not (one.read_first and one.grade in one.case.caught.split(" or "))
    ]


def _became(one: Played) -> str:
    return f"SHIPPED at {one.grade}" if one.shipped else one.defence


def _at_level(level: str, patched: pytest.MonkeyPatch) -> None:
    if level == AUTO:
        needs(Level.LANDLOCK)
    patched.setenv(SANDBOX, level)


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def _refused(played: list[tuple[Project, Played]]) -> list[str]:
    return [f"{p.name}: {one.case.name}: {one.reason}" for p, one in played if not one.shipped]


def test_a_sample_of_attacks_does_not_ship(tmp_path: Path) -> None:
    assert _missed(_play(tmp_path, sampled_attacks())) == []


def test_a_sample_of_honest_work_ships(tmp_path: Path) -> None:
    assert _refused(_play(tmp_path, sampled_honest_work())) == []


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("project", "cases"), [part[1:] for part in PARTS], ids=[part[0] for part in PARTS]
)
def test_no_attack_ships_at_grade_a(
    tmp_path: Path, project: Project, cases: tuple[Case, ...]
) -> None:
    played = _play(tmp_path, ((project, cases),))
    stopped = Counter(_became(one) for _, one in played)
    _tell(f"\n{project.name}: {len(played)} attacks: {dict(stopped)}")
    for _, one in played:
        _tell(f"  {_became(one):14} {one.case.name}")
    assert _missed(played) == []


@pytest.mark.sweep
@pytest.mark.parametrize("project", [project for project, _ in ATTACKS], ids=lambda one: one.name)
def test_no_attack_ships_at_grade_a_inside_of_walls(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    _at_level(AUTO, monkeypatch)
    cases = next(cases for one, cases in ATTACKS if one is project)
    assert _missed_inside(_play(tmp_path, ((project, cases),))) == []


@pytest.mark.sweep
@pytest.mark.parametrize("level", [Level.NONE, AUTO])
def test_honest_work_ships(tmp_path: Path, level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _at_level(level, monkeypatch)
    played = _play(tmp_path, HONEST)
    refused = _refused(played)
    grades = Counter(one.grade for _, one in played if one.shipped)
    told = f"\nhonest: {len(played)} changes, {len(refused)} refused, grades {dict(grades)}"
    _tell("\n  ".join((told, *refused)))
    assert len(refused) <= MAX_REFUSED


@pytest.mark.sweep
def test_what_is_not_covered_still_ships(tmp_path: Path) -> None:
    """So that the list of it is no longer than it has to be."""
    played = _play(tmp_path, NOT_COVERED)
    assert [one.case.name for _, one in played if not (one.shipped and one.fooled)] == []


def test_the_corpus_is_large_and_its_names_are_plain() -> None:
    assert size(ATTACKS) >= 320
    assert size(HONEST) >= 60
    for _, cases in (*ATTACKS, *HONEST, *NOT_COVERED):
        assert len({*names(cases)}) == len(cases)


@pytest.mark.parametrize("table", [attack_table, lower_table, honest_table, not_covered_table])
def test_the_document_tells_of_every_case(table: object) -> None:
    assert callable(table)
    assert "\n".join(table()) in DOCUMENT.read_text("utf-8")
