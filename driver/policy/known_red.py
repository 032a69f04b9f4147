"""The rules for tests that are red on the base already. Pure.

A test command is often the whole suite, and some of its tests may be red before any work. A project
can name these tests (`[verify] known_red`); a run in which exactly such tests are red is green.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from driver.domain.results import Change, RunKind, TestRun
from driver.policy.judgement import named
from driver.policy.test_files import stem_of, stems_in_output
from driver.runners.result import Counts
from state_store.values.lazy_pattern import lazy_pattern

# A file with the number of a line, as in tracebacks: `File "a/b.py", line 3`, `a/b.js:3`.
# Begins only where a path can begin and gives nothing back, so a hostile line takes no time.
_PATH = r"(?<![\w./-])([\w./-]++)"
_PLACE = lazy_pattern(rf"{_PATH}(?:\", line |[:(])\d")
_FILE = lazy_pattern(rf"{_PATH}(?=::| > | \u203a |$)")
_ENDING = lazy_pattern(r"\w\.\w+$")
_DOTTED = lazy_pattern(r"\(([\w.]+)\)$")


def allowed_on(baseline: TestRun | None, patterns: Sequence[str]) -> frozenset[str]:
    """The tests that are red on the base and that the project names."""
    names = baseline.failing if baseline is not None else ()
    return frozenset(
        name
        for name in names
        if name in patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    )


def accepted(run: TestRun, allowed: Collection[str], exit_code: int | None) -> TestRun:
    """The run, but green if it is red in allowed tests only and ended as the base did, with
    `exit_code`. The names have to agree with the counts, or a red test could hide."""
    counts, names = run.counts, {*run.failing}
    if run.kind is not RunKind.RED or not exit_code or run.exit_code != exit_code:
        return run
    if run.tampered or run.survivors or not isinstance(counts, Counts):
        return run
    if not names or counts.failed != len(names) or not names <= {*allowed}:
        return run
    green = replace(counts, failed=0)
    return replace(run, kind=RunKind.GREEN, reason="", counts=green, known_red=run.failing)


def without_known(run: TestRun, known: Collection[str]) -> TestRun:
    """The run without the red tests that are known."""
    counts = run.counts
    if not known or not isinstance(counts, Counts) or not {*known} <= {*run.failing}:
        return run
    return replace(run, counts=replace(counts, failed=max(counts.failed - len(known), 0)))


def red_before(proof: TestRun, baseline: TestRun | None) -> tuple[list[str], list[str]]:
    """The red tests of a proof that are red on the base as well, and the others."""
    before = {*(baseline.failing if baseline is not None else ())}
    same = [name for name in proof.failing if name in before]
    return same, [name for name in proof.failing if name not in before]


def sentence(same: Sequence[str], new: Sequence[str]) -> str:
    """The part of a reason that tells which red tests were red before; "" without names."""
    parts = (*named("red on the base as well: ", same), *named("red only now: ", new))
    return "; ".join(parts) if same else ""


def names_change(proof: TestRun, changes: Iterable[Change]) -> bool:
    """True if the file of a red test, or a place in a traceback, is a changed file or its test. The
    own names of tests do not count: `test_calc` may stand in any file."""
    words = stems_in_output(one.path for one in changes)
    named = filter(_has_ending, _PLACE.findall(proof.output))
    places = (*named, *(one for red in proof.failing for one in _files(red)))
    return not words.isdisjoint(map(stem_of, places))


def _has_ending(path: str) -> bool:
    """True for `a/b.py`, with an ending of letters after its last point."""
    return _ENDING.search(path, max(0, path.rfind(".") - 1)) is not None


def _files(name: str) -> Iterator[str]:
    """The files in the name of a test: `a/b.py::test_c`, `a/b.js > c`, and for `(a.b.Class.test)`
    and `a::b::test` the modules."""
    files = [*filter(_has_ending, _FILE.findall(name))]
    yield from files
    if not files:
        yield from name.split("::")[:-1]
    for dotted in _DOTTED.findall(name):
        yield from dotted.split(".")[:-1]
