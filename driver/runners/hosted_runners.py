"""The summaries of maven's surefire, gradle, rspec, phpunit and `dotnet test`."""

from __future__ import annotations

import re
from collections import Counter

from driver.runners.result import CONTRADICTORY, Counts, Doubt, Found, Runner, numbers, total

_LEVEL = re.compile(r"^\[(?:INFO|WARNING|ERROR)\] ?", re.M)
_MAVEN = re.compile(
    r"^(?P<header> *T E S T S *)$"
    r"|^Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)(?P<rest>.*)$",
    re.M,
)
_MAVEN_NONE = re.compile(r"^(?:No tests to run\.|Tests are skipped\.)$", re.M)

_GRADLE_TOTAL = re.compile(r"^(\d+) tests? completed(.*)$", re.M)
_GRADLE_TEST = re.compile(r"^\S.* > .+ (PASSED|FAILED|SKIPPED)$", re.M)
_GRADLE_TASK = re.compile(r"^(?:> Task )?:(?:\S+:)?test( NO-SOURCE)?(?: [A-Z-]+)?$", re.M)

_RSPEC = re.compile(
    r"^Finished in .+\n(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?"
    r"(?:, (\d+) errors? occurred outside of examples)?$",
    re.M,
)
_PHPUNIT = re.compile(
    r"^OK \((\d+) tests?, \d+ assertions?\)$"
    r"|^(?:[A-Z]+!|OK, but .+!)\nTests: (\d+), Assertions: \d+(.*)\.$"
    r"|^No tests executed!$",
    re.M,
)
_PHPUNIT_WORD = re.compile(r"(\w+): (\d+)")

# The words are in the user's language; their order and their sum are not.
_DOTNET = re.compile(
    r"^ *\S[^:\n]*! +[-:] +[^:,\n]+: *(\d+), [^:,\n]+: *(\d+), [^:,\n]+: *(\d+), [^:,\n]+: *(\d+)"
    r"(?:, .*?)?(?: - (?P<assembly>.+))?$",
    re.M,
)
_DOTNET_BLOCK = re.compile(
    r"^Total tests: (\d+)\n(?: +Passed: (\d+)\n?)?(?: +Failed: (\d+)\n?)?(?: +Skipped: (\d+)\n?)?",
    re.M,
)
_DOTNET_WHOLE = re.compile(
    r"^Test summary: total: \d+, failed: (\d+), succeeded: (\d+), skipped: (\d+)(?:,.*)?$", re.M
)
_DOTNET_NONE = re.compile(r"^No test is available in .+$", re.M)


def read_maven(text: str) -> Found:
    """Each module's total must be the sum of its classes, where these are told."""
    plain = _LEVEL.sub("", text)
    parts: list[Counts] = []
    classes: int | None = None
    for match in _MAVEN.finditer(plain):
        if match["header"]:
            parts += [Counts("maven", 1, 1, 0)] if classes is not None else []
            classes = 0
        elif "Time elapsed" in match["rest"]:
            classes = (classes or 0) + int(match[2])
        elif classes is None or classes not in (0, int(match[2])):
            return Doubt("maven", CONTRADICTORY)
        else:
            parts.append(_maven(match))
            classes = None
    if classes is not None:
        parts.append(Counts("maven", 1, 1, 0))
    nothing = not parts and _MAVEN_NONE.search(plain)
    return (total("maven", parts),) if parts or nothing else ()


def _maven(match: re.Match[str]) -> Counts:
    all_, failures, errors, skipped = (int(match[number]) for number in range(2, 6))
    return Counts("maven", all_ - skipped, failures + errors, skipped)


def read_gradle(text: str) -> Found:
    """Gradle counts when a test is red; else only a project that has its tests told is counted."""
    if totals := _GRADLE_TOTAL.findall(text):
        return (total("gradle", (_gradle(int(all_), numbers(rest)) for all_, rest in totals)),)
    said = Counter(_GRADLE_TEST.findall(text))
    if said["PASSED"]:
        return (Counts("gradle", said["PASSED"] + said["FAILED"], said["FAILED"], said["SKIPPED"]),)
    tasks = _GRADLE_TASK.findall(text)
    return (Counts("gradle", 0, 0, 0),) if tasks and all(tasks) else ()


def _gradle(all_: int, said: dict[str, int]) -> Counts:
    skipped = said.get("skipped", 0)
    return Counts("gradle", all_ - skipped, said.get("failed", 0), skipped)


def read_rspec(text: str) -> Found:
    """A file that could not be loaded is an error outside of examples."""
    return tuple(_rspec(match) for match in _RSPEC.finditer(text))


def _rspec(match: re.Match[str]) -> Counts:
    examples, failures, pending, outside = (int(number or 0) for number in match.groups())
    return Counts("rspec", examples - pending + outside, failures + outside, pending)


def read_phpunit(text: str) -> Found:
    """Incomplete tests are skipped ones; risky ones ran."""
    return tuple(_phpunit(match) for match in _PHPUNIT.finditer(text))


def _phpunit(match: re.Match[str]) -> Counts:
    said = {name: int(number) for name, number in _PHPUNIT_WORD.findall(match[3] or "")}
    skipped = said.get("Skipped", 0) + said.get("Incomplete", 0)
    failed = said.get("Failures", 0) + said.get("Errors", 0)
    return Counts("phpunit", int(match[1] or match[2] or 0) - skipped, failed, skipped)


def read_dotnet(text: str) -> Found:
    """One line for each assembly, or one for all of them, or a block for each."""
    if whole := _DOTNET_WHOLE.findall(text):
        return tuple(_dotnet(*map(int, numbers_)) for numbers_ in whole)
    lines = [one for one in _DOTNET.finditer(text) if _adds_up(one)]
    named = {(one["assembly"], one.groups()) for one in lines}
    if len({assembly for assembly, _ in named if assembly}) < sum(bool(a) for a, _ in named):
        return Doubt("dotnet", CONTRADICTORY)
    parts = [_dotnet(int(one[1]), int(one[2]), int(one[3])) for one in lines]
    parts += [] if lines else [_dotnet_block(one) for one in _DOTNET_BLOCK.finditer(text)]
    return (total("dotnet", parts),) if parts or _DOTNET_NONE.search(text) else ()


def _adds_up(line: re.Match[str]) -> bool:
    return int(line[1]) + int(line[2]) + int(line[3]) == int(line[4])


def _dotnet_block(block: re.Match[str]) -> Counts:
    return _dotnet(int(block[3] or 0), int(block[2] or 0), int(block[4] or 0))


def _dotnet(failed: int, passed: int, skipped: int) -> Counts:
    return Counts("dotnet", passed + failed, failed, skipped)


RUNNERS = (
    Runner("maven", read_maven, adds=True, closes=False),
    Runner("gradle", read_gradle, stream="both", adds=True, closes=False),
    Runner("rspec", read_rspec),
    Runner("phpunit", read_phpunit),
    Runner("dotnet", read_dotnet, adds=True, closes=False),
)
