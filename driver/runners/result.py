"""Test counts, doubts about them, and the cleaning of a stream. The module of each runner's family
knows the wording of its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from state_store.documents.strict_json import parse
from state_store.values.lazy_dataclass import asdict, dataclass, field
from state_store.values.lazy_pattern import lazy_pattern

_ESCAPES = lazy_pattern(
    r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])"
)
_NUMBER_AND_WORD = lazy_pattern(r"(\d+) ([a-z]+)")


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a runner. `ran` tests passed or `failed`; errors count as failed. `skipped`
    tests were found but prove nothing: skipped, pending, to do, ignored, expected to fail. Tests
    excluded by a filter are not counted. `source` is PRINTED for counts of the output alone,
    REPORTED for counts of the runner's own report; it does not take part in comparisons."""

    runner: str
    ran: int
    failed: int
    skipped: int
    source: str = field(default="printed", compare=False)

    @property
    def passed(self) -> int:
        """Tests that ran and did not fail. Never below 0, because a test can fail several times."""
        return max(self.ran - self.failed, 0)

    def to_json(self) -> dict[str, Any]:
        """The JSON form in receipts."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A known runner whose output cannot be trusted; `reason` is MISSING or CONTRADICTORY."""

    runner: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        """The JSON form in receipts."""
        return {"runner": self.runner, "doubt": self.reason}


def counts_from_json(document: Mapping[str, Any] | None) -> Counts | Doubt | None:
    """Counts or a doubt from a receipt. Raises KeyError, TypeError and ValueError."""
    if document is None:
        return None
    if "doubt" in document:
        return Doubt(str(document["runner"]), str(document["doubt"]))
    ran, failed, skipped = (int(document[name]) for name in ("ran", "failed", "skipped"))
    source = str(document.get("source", PRINTED))
    return Counts(str(document["runner"]), ran, failed, skipped, source)


PRINTED, REPORTED = "printed", "reported"
MISSING = "its closing summary is missing"
CONTRADICTORY = "its summaries contradict each other"

# The summaries in a cleaned stream, in order; () for none.
Found = tuple[Counts, ...] | Doubt
Reader = Callable[[str], Found]


def cleaned(text: str) -> str:
    """The text without colors, each line in the final state on a terminal."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)


def numbers(text: str) -> dict[str, int]:
    """`{"passed": 3, "failed": 1}` for "3 passed, 1 failed"."""
    return {word: int(number) for number, word in _NUMBER_AND_WORD.findall(text)}


def total(runner: str, parts: Iterable[Counts]) -> Counts:
    """The sum of all counts. It is REPORTED if all of them are."""
    parts = tuple(parts)
    every = [(one.ran, one.failed, one.skipped) for one in parts]
    ran, failed, skipped = map(sum, zip((0, 0, 0), *every, strict=True))
    reported = parts and all(one.source == REPORTED for one in parts)
    return Counts(runner, ran, failed, skipped, REPORTED if reported else PRINTED)


def read_junit(runner: str, text: str) -> Counts:
    """The counts of a report in JUnit's XML. A test with a second error, at its teardown, has two
    entries. Raises ValueError for another text, and for one with entities, which could be huge."""
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("a report has no document type")
    from xml.etree import ElementTree  # noqa: PLC0415 - most runs have no such report

    try:
        cases = list(ElementTree.fromstring(text).iter("testcase"))
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from error
    ran = failed = skipped = 0
    before: tuple[str | None, ...] = ()
    for case in cases:
        found = {child.tag for child in case} & {"failure", "error", "skipped"}
        name = case.get("classname"), case.get("name")
        if not (found == {"error"} and name == before):
            ran, skipped = ran + ("skipped" not in found), skipped + ("skipped" in found)
            failed += bool(found - {"skipped"})
        before = name if "failure" in found else ()
    return Counts(runner, ran, failed, skipped, REPORTED)


def read_jest_json(runner: str, text: str) -> Counts:
    """The counts of a report in jest's JSON, which vitest writes as well. A file that could not be
    loaded counts as a failed test. Raises ValueError for another text."""
    found = parse(text)
    if not isinstance(found, dict):
        found = {}
    names = (f"num{word}Tests" for word in ("Passed", "Failed", "Pending", "Todo"))
    counts = [number for name in names if type(number := found.get(name)) is int]
    files = found.get("testResults")
    if not isinstance(files, list) or len(counts) < 4:
        raise ValueError("a report without its numbers")
    passed, failed, pending, todo = counts
    failed = failed or sum(isinstance(one, dict) and one.get("status") == "failed" for one in files)
    return Counts(runner, passed + failed, failed, pending + todo, REPORTED)
