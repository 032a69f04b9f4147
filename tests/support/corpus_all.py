"""The whole corpus by runner, the part of it that is always played, and its table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tests.support import corpus_aware as aware
from tests.support import corpus_canary as canary
from tests.support import corpus_compiled as compiled
from tests.support import (
    corpus_field_builds,
    corpus_field_compiled,
    corpus_field_data,
    corpus_field_js,
    corpus_field_python,
    corpus_field_runners,
)
from tests.support import corpus_fresh_apart as apart
from tests.support import corpus_fresh_around as around
from tests.support import corpus_fresh_asserts as asserts
from tests.support import corpus_fresh_lower as lower
from tests.support import corpus_fresh_others as others
from tests.support import corpus_fresh_settings as own
from tests.support import corpus_more as more
from tests.support import corpus_names as called
from tests.support import corpus_node as node
from tests.support import corpus_python as python
from tests.support.corpus import Case, Project
from tests.support.corpus_honest import HONEST as HONEST_AT_FIRST

Corpus = tuple[tuple[Project, tuple[Case, ...]], ...]
FIRST: Corpus = (
    (
        python.PYTEST,
        (
            *python.PYTEST_ATTACKS,
            *more.PYTEST_MORE,
            *aware.PYTEST_AWARE,
            *called.PYTEST_NAMES,
            *canary.PYTEST_CANARY,
        ),
    ),
    (called.ALONE, called.ALONE_ATTACKS),
    (
        python.UNITTEST,
        (
            *python.UNITTEST_ATTACKS,
            *more.UNITTEST_MORE,
            *aware.UNITTEST_AWARE,
            *called.UNITTEST_NAMES,
            *canary.UNITTEST_CANARY,
        ),
    ),
    (
        node.NODE,
        (
            *node.NODE_ATTACKS,
            *more.NODE_MORE,
            *aware.NODE_AWARE,
            *called.NODE_NAMES,
            *canary.NODE_CANARY,
        ),
    ),
    (node.NPM, (*node.NPM_ATTACKS, *called.NPM_NAMES)),
    (compiled.MAKE, (*compiled.MAKE_ATTACKS, *more.MAKE_MORE, *called.MAKE_NAMES)),
    (compiled.GO, (*compiled.GO_ATTACKS, *more.GO_MORE)),
    (compiled.CARGO, (*compiled.CARGO_ATTACKS, *more.CARGO_MORE)),
    (called.CHECKER, called.CHECKER_ATTACKS),
    (python.COMMAND, python.COMMAND_ATTACKS),
)
FRESH: Corpus = (
    (
        python.PYTEST,
        (
            *asserts.PYTEST_ASSERTS,
            *apart.PYTEST_APART,
            *apart.PYTEST_LATE,
            *apart.PYTEST_BESIDE,
            *apart.PYTEST_LIES,
            *around.PYTEST_LEFT_OUT,
            *around.PYTEST_GIT,
            *around.PYTEST_REPORTS,
            *around.PYTEST_PATHS,
            *lower.PYTEST_LOWER,
            *lower.PYTEST_ANSWERS,
            *python.PYTEST_SHOWN,
            *aware.PYTEST_KNOWS,
        ),
    ),
    (python.UNITTEST, (*asserts.UNITTEST_ASSERTS, *apart.UNITTEST_APART)),
    (
        node.NODE,
        (
            *others.NODE_ASSERTS,
            *others.NODE_APART,
            *others.NODE_LIES,
            *around.NODE_LEFT_OUT,
        ),
    ),
    (node.NPM, others.NPM_FRESH),
    (compiled.GO, (*others.GO_FRESH, *more.GO_KNOWS)),
    (compiled.CARGO, others.CARGO_FRESH),
    (lower.SCRIPTS, lower.SCRIPTS_LOWER),
    (lower.TAP, lower.TAP_LOWER),
    (lower.CHECKERS, lower.CHECKERS_LOWER),
    (own.KNOWN, own.KNOWN_ATTACKS),
    (own.EXCLUSIVE, own.EXCLUSIVE_ATTACKS),
    (own.SETUP, own.SETUP_ATTACKS),
    (own.HOME, own.HOME_ATTACKS),
    (own.CHECKER_HOME, own.CHECKER_HOME_ATTACKS),
)
PARTS = (
    *((project.name, project, cases) for project, cases in FIRST),
    *((f"{project.name}-fresh", project, cases) for project, cases in FRESH),
)
ATTACKS: Corpus = tuple(
    (project, tuple(case for _, of, cases in PARTS if of.name == project.name for case in cases))
    for project in {project.name: project for _, project, _ in PARTS}.values()
)
NOT_COVERED: Corpus = ((python.PYTEST, python.NOT_COVERED),)
DEFENCES = {
    "ownership": "ownership",
    "protected": "protected files",
    "command": "the command, at intake",
    "counts": "counts",
    "added tests": "without the added tests",
    "canary": "canary test",
    "spot check": "spot check",
    "tampered tree": "the tree after the run",
    "survivors": "processes that are left",
    "environment": "the watched places around the tests",
    "exit code": "files that are not work are left out",
}
HONEST: Corpus = (
    *HONEST_AT_FIRST,
    *corpus_field_python.FIELD,
    *corpus_field_data.FIELD,
    *corpus_field_runners.FIELD,
    *corpus_field_js.FIELD,
    *corpus_field_builds.FIELD,
    *corpus_field_compiled.FIELD,
)
GRADES = ("B", "C")  # of an attack that ships: a person is told to read it first
# The quick runners, and of the slowest of them what only it can show or shows best.
SAMPLED = {
    python.PYTEST.name: ("protected", "canary"),
    python.UNITTEST.name: tuple(DEFENCES),
    python.COMMAND.name: tuple(DEFENCES),
}
HONEST_SAMPLE = 2


def sampled_attacks() -> Corpus:
    """An attack for each defence that stops any."""
    found = []
    for project, cases in ATTACKS:
        wanted = SAMPLED.get(project.name, ())
        firsts = {case.caught: case for case in reversed(cases) if case.caught in wanted}
        found += [(project, tuple(firsts.values()))] if firsts else []
    return tuple(found)


def sampled_honest_work() -> Corpus:
    """A few cases of the quick runners, evenly chosen."""
    return tuple(
        (project, cases[:: -(-len(cases) // HONEST_SAMPLE)])
        for project, cases in HONEST
        if project.name in SAMPLED
    )


def playable(corpus: Corpus) -> Corpus:
    """What this machine has the programs for."""
    return tuple((p, cases) for p, cases in corpus if p.is_playable)


def attack_table() -> list[str]:
    """Which defence stops which attack, as lines of a document."""
    lines = ["| runner | stopped by | attacks |", "|---|---|---|"]
    for project, cases in ATTACKS:
        for word, said in DEFENCES.items():
            names = [case.name for case in cases if _first(case) == word]
            lines += [f"| {project.name} | {said} | {_cell(names)} |"] if names else []
    return lines


def lower_table() -> list[str]:
    """Which attacks ship, and at which grade, as lines of a document."""
    lines = ["| runner | grade | attacks that ship, and are read first |", "|---|---|---|"]
    for project, cases in ATTACKS:
        for grade in GRADES:
            names = [case.name for case in cases if _first(case) == grade]
            lines += [f"| {project.name} | {grade} | {_cell(names)} |"] if names else []
    return lines


def honest_table() -> list[str]:
    """Which honest work ships, as lines of a document."""
    head = ["| runner | work that ships |", "|---|---|"]
    return head + [f"| {p.name} | {_cell(c.name for c in cases)} |" for p, cases in HONEST]


def not_covered_table() -> list[str]:
    """Which false greens ship, as lines of a document."""
    return [f"- {case.name};" for _, cases in NOT_COVERED for case in cases]


def _first(case: Case) -> str:
    return case.caught.partition(" or ")[0]


def _cell(names: Iterable[str]) -> str:
    return "; ".join(names).replace("|", "\\|")


def size(corpus: Corpus) -> int:
    """How many cases there are."""
    return sum(len(cases) for _, cases in corpus)


def names(cases: Sequence[Case]) -> list[str]:
    """Their names."""
    return [case.name for case in cases]
