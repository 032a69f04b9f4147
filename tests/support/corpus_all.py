"""The whole corpus by runner, the part of it that is always played, and its table."""

from __future__ import annotations

import shutil
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
from tests.support import corpus_more as more
from tests.support import corpus_names as called
from tests.support import corpus_node as node
from tests.support import corpus_python as python
from tests.support.corpus import Case, Project
from tests.support.corpus_honest import HONEST as HONEST_AT_FIRST

Corpus = tuple[tuple[Project, tuple[Case, ...]], ...]
ATTACKS: Corpus = (
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
NOT_COVERED: Corpus = (
    (python.PYTEST, (*python.NOT_COVERED, *aware.PYTEST_KNOWS)),
    (compiled.GO, more.GO_KNOWS),
)
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
    return tuple((p, cases) for p, cases in corpus if all(map(shutil.which, p.needs)))


def attack_table() -> list[str]:
    """Which defence stops which attack, as lines of a document."""
    lines = ["| runner | stopped by | attacks |", "|---|---|---|"]
    for project, cases in ATTACKS:
        for word, said in DEFENCES.items():
            names = [case.name for case in cases if case.caught == word]
            lines += [f"| {project.name} | {said} | {_cell(names)} |"] if names else []
    return lines


def honest_table() -> list[str]:
    """Which honest work ships, as lines of a document."""
    head = ["| runner | work that ships |", "|---|---|"]
    return head + [f"| {p.name} | {_cell(c.name for c in cases)} |" for p, cases in HONEST]


def not_covered_table() -> list[str]:
    """Which false greens ship, as lines of a document."""
    return [f"- {case.name};" for _, cases in NOT_COVERED for case in cases]


def _cell(names: Iterable[str]) -> str:
    return "; ".join(names).replace("|", "\\|")


def size(corpus: Corpus) -> int:
    """How many cases there are."""
    return sum(len(cases) for _, cases in corpus)


def names(cases: Sequence[Case]) -> list[str]:
    """Their names."""
    return [case.name for case in cases]
