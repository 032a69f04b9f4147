"""A wrong change that looks right does not ship, and honest work does: whole waves on real git.

`python -m pytest -m sweep -s tests/attacks/test_false_green.py` plays every case and prints the
table; a sample is always played.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.support.beside import beside_each_other
from tests.support.corpus import Case, Played, Project, play
from tests.support.corpus_all import (
    ATTACKS,
    HONEST,
    NOT_COVERED,
    Corpus,
    attack_table,
    honest_table,
    names,
    not_covered_table,
    playable,
    sampled_attacks,
    sampled_honest_work,
    size,
)

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

DOCUMENT = Path(__file__).parents[2] / "docs/verification.md"
MAX_REFUSED = 1


def _play(folder: Path, corpus: Corpus) -> list[tuple[Project, Played]]:
    def play_one(folder: Path, number: int) -> list[tuple[Project, Played]]:
        project, cases = found[number]
        return [(project, played) for played in play(folder / "it", project, cases)]

    found = playable(corpus)
    results = beside_each_other(play_one, range(len(found)), folder)
    return [one for result in results.values() for one in result.result()]


def _missed(played: list[tuple[Project, Played]]) -> list[str]:
    """Attacks that shipped, were stopped by something else, or would have fooled nobody."""
    return [
        f"{project.name}: {one.case.name}: {one.defence or 'SHIPPED'}: {one.reason}"
        for project, one in played
        if one.defence != one.case.caught or not (one.fooled or one.defence == "command")
    ]


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
    ("project", "cases"), ATTACKS, ids=[project.name for project, _ in ATTACKS]
)
def test_no_attack_ships(tmp_path: Path, project: Project, cases: tuple[Case, ...]) -> None:
    played = _play(tmp_path, ((project, cases),))
    stopped = Counter(one.defence or "SHIPPED" for _, one in played)
    _tell(f"\n{project.name}: {len(played)} attacks: {dict(stopped)}")
    for _, one in played:
        _tell(f"  {one.defence or 'SHIPPED':14} {one.case.name}")
    assert _missed(played) == []


@pytest.mark.sweep
def test_honest_work_ships(tmp_path: Path) -> None:
    played = _play(tmp_path, HONEST)
    refused = _refused(played)
    _tell("\n  ".join((f"\nhonest: {len(played)} changes, {len(refused)} refused", *refused)))
    assert len(refused) <= MAX_REFUSED


@pytest.mark.sweep
def test_what_is_not_covered_still_ships(tmp_path: Path) -> None:
    """So that the list of it is no longer than it has to be."""
    played = _play(tmp_path, NOT_COVERED)
    assert [one.case.name for _, one in played if not (one.shipped and one.fooled)] == []


def test_the_corpus_is_large_and_its_names_are_plain() -> None:
    assert size(ATTACKS) >= 60
    assert size(HONEST) >= 60
    for _, cases in (*ATTACKS, *HONEST, *NOT_COVERED):
        assert len({*names(cases)}) == len(cases)


@pytest.mark.parametrize("table", [attack_table, honest_table, not_covered_table])
def test_the_document_tells_of_every_case(table: object) -> None:
    assert callable(table)
    assert "\n".join(table()) in DOCUMENT.read_text("utf-8")
