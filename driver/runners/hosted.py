"""The summaries of maven (surefire), gradle, rspec, phpunit, dotnet and ctest. They have no
canary."""

from __future__ import annotations

import re
from collections import Counter

from driver.runners.result import CONTRADICTORY, Counts, Doubt, Found, numbers, total
from driver.runners.runner import Runner, named_files
from state_store.values.lazy_pattern import lazy_pattern

_CTEST = lazy_pattern(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", re.M)
_CTEST_LEFT_OUT = lazy_pattern(r"^\t *\d+ - .+ \((Skipped|Disabled)\)$", re.M)
_CTEST_NONE = lazy_pattern(r"^No tests were found!!!$", re.M)

_LEVEL = lazy_pattern(r"^\[(?:INFO|WARNING|ERROR)\] ?", re.M)
_MAVEN = lazy_pattern(
    r"^(?P<header> *T E S T S *)$"
    r"|^Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)(?P<rest>.*)$",
    re.M,
)
_MAVEN_NONE = lazy_pattern(r"^(?:No tests to run\.|Tests are skipped\.)$", re.M)

_GRADLE_TOTAL = lazy_pattern(r"^(\d+) tests? completed(.*)$", re.M)
_GRADLE_TASK = lazy_pattern(r"^(?:> Task )?:(?:\S+:)?test( NO-SOURCE)?(?: [A-Z-]+)?$", re.M)

_RSPEC = lazy_pattern(
    r"^Finished in .+\n(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?"
    r"(?:, (\d+) errors? occurred outside of examples)?$",
    re.M,
)
_PHPUNIT = lazy_pattern(
    r"^OK \((\d+) tests?, \d+ assertions?\)$"
    r"|^(?:[A-Z]+!|OK, but .+!)\nTests: (\d+), Assertions: \d+(.*)\.$"
    r"|^No tests executed!$",
    re.M,
)
_PHPUNIT_WORD = lazy_pattern(r"(\w+): (\d+)")

# The words depend on the user's language; their order and sum do not.
_DOTNET = lazy_pattern(
    r"^ *\S[^:\n]{0,300}! +[-:] +[^:,\n]{1,99}: *(\d+), [^:,\n]{1,99}: *(\d+)"
    r", [^:,\n]{1,99}: *(\d+), [^:,\n]{1,99}: *(\d+)"
    r"(?:, .*?)?(?: - (?P<assembly>.+))?$",
    re.M,
)
_DOTNET_BLOCK = lazy_pattern(
    r"^Total tests: (\d+)\n(?: +Passed: (\d+)\n?)?(?: +Failed: (\d+)\n?)?(?: +Skipped: (\d+)\n?)?",
    re.M,
)
_DOTNET_WHOLE = lazy_pattern(
    r"^Test summary: total: \d+, failed: (\d+), succeeded: (\d+), skipped: (\d+)(?:,.*)?$", re.M
)
_DOTNET_NONE = lazy_pattern(r"^No test is available in .+$", re.M)


def _read_ctest(text: str) -> Found:
    """The counts of ctest. Its total includes skipped tests, but not disabled tests."""
    marks = list(_CTEST.finditer(text))
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    found = []
    for mark, end in zip(marks, ends, strict=False):
        left_out = _CTEST_LEFT_OUT.findall(text[mark.end() : end])
        ran = int(mark[2]) - left_out.count("Skipped")
        found.append(Counts("ctest", ran, int(mark[1]), len(left_out)))
    return tuple(found) or tuple(Counts("ctest", 0, 0, 0) for _ in _CTEST_NONE.finditer(text))


def _read_maven(text: str) -> Found:
    """The counts of maven. If a module lists its classes, their sum must be the module's total."""
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
            every, failures, errors, skipped = (int(match[number]) for number in range(2, 6))
            parts.append(Counts("maven", every - skipped, failures + errors, skipped))
            classes = None
    if classes is not None:
        parts.append(Counts("maven", 1, 1, 0))
    nothing = not parts and _MAVEN_NONE.search(plain)
    return (total("maven", parts),) if parts or nothing else ()


def _read_gradle(text: str) -> Found:
    """The counts of gradle. It prints a total only with a red test; otherwise listed tests are
    counted."""
    parts = []
    for every, rest in _GRADLE_TOTAL.findall(text):
        by_word = numbers(rest)
        skipped = by_word.get("skipped", 0)
        parts.append(Counts("gradle", int(every) - skipped, by_word.get("failed", 0), skipped))
    if parts:
        return (total("gradle", parts),)
    ends = (line.rpartition(" ") for line in text.split("\n") if line[:1].strip())
    listed = Counter(word for test, _, word in ends if 0 < test.find(" > ", 1) < len(test) - 3)
    passed, failed = listed["PASSED"], listed["FAILED"]
    if passed:
        return (Counts("gradle", passed + failed, failed, listed["SKIPPED"]),)
    tasks = _GRADLE_TASK.findall(text)
    return (Counts("gradle", 0, 0, 0),) if tasks and all(tasks) else ()


def _read_rspec(text: str) -> Found:
    """The counts of rspec. A file that could not be loaded is an error outside of examples."""
    found = []
    for match in _RSPEC.finditer(text):
        examples, failures, pending, outside = (int(number or 0) for number in match.groups())
        ran = examples - pending + outside
        found.append(Counts("rspec", ran, failures + outside, pending))
    return tuple(found)


def _read_phpunit(text: str) -> Found:
    """The counts of phpunit. Incomplete tests count as skipped, risky tests as run."""
    found = []
    for match in _PHPUNIT.finditer(text):
        by_word = {name: int(number) for name, number in _PHPUNIT_WORD.findall(match[3] or "")}
        skipped = by_word.get("Skipped", 0) + by_word.get("Incomplete", 0)
        failed = by_word.get("Failures", 0) + by_word.get("Errors", 0)
        ran = int(match[1] or match[2] or 0) - skipped
        found.append(Counts("phpunit", ran, failed, skipped))
    return tuple(found)


def _read_dotnet(text: str) -> Found:
    """The counts of dotnet: a line for each assembly, a line for all of them, or a block
    for each."""
    if whole := _DOTNET_WHOLE.findall(text):
        return tuple(_dotnet(*numbers_) for numbers_ in whole)
    lines = [
        one
        for one in _DOTNET.finditer(text)
        if int(one[1]) + int(one[2]) + int(one[3]) == int(one[4])
    ]
    named = {(one["assembly"], one.groups()) for one in lines}
    if len({assembly for assembly, _ in named if assembly}) < sum(bool(a) for a, _ in named):
        return Doubt("dotnet", CONTRADICTORY)
    parts = [_dotnet(one[1], one[2], one[3]) for one in lines]
    if not lines:
        parts = [_dotnet(one[3], one[2], one[4]) for one in _DOTNET_BLOCK.finditer(text)]
    return (total("dotnet", parts),) if parts or _DOTNET_NONE.search(text) else ()


def _dotnet(failed: str | None, passed: str | None, skipped: str | None) -> Counts:
    red = int(failed or 0)
    return Counts("dotnet", int(passed or 0) + red, red, int(skipped or 0))


RUNNERS = (
    Runner(
        name="ctest",
        read=_read_ctest,
        programs=("ctest",),
        test_files=(r".*_tests?\.(c|cc|cpp)",),
        configures=("ctesttestfile.cmake", "ctestconfig.cmake", "ctestcustom.cmake"),
        red=(r"^\t *\d+ - (?P<name>.+) \((?!Skipped|Disabled|Not Run \(Disabled)[^()]+\)$",),
        red_marks=(r"^ *\d+/\d+ Test +#\d+: .*\*\*\*(?:Failed|Exception|Timeout)",),
    ),
    Runner(
        name="maven",
        read=_read_maven,
        report_files=("target/surefire-reports/TEST-*.xml", "target/failsafe-reports/TEST-*.xml"),
        built_by=("pom.xml",),
        programs=("mvn", "mvnw"),
        closes=False,
        camel_case=("java", "kt", "scala", "groovy"),
        configures=("testng.xml", "junit-platform.properties"),
        red=(
            r"^(?:\[ERROR\] )?(?P<name>[\w.$][^\s:]*) +(?:-- )?Time elapsed: .*"
            r" <<< (?:FAILURE|ERROR)!",
        ),
        red_marks=(
            r"^\[ERROR\] +[\w$]+\.\S+:\d+",
            r"^\[ERROR\] COMPILATION ERROR",
            r"^\[ERROR\] /",
        ),
    ),
    Runner(
        name="gradle",
        read=_read_gradle,
        report_files=("build/test-results/*/TEST-*.xml",),
        built_by=("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"),
        programs=("gradle", "gradlew"),
        stream="both",
        closes=False,
        camel_case=("java", "kt", "scala", "groovy"),
        red=(r"^(?P<name>\S+ > .+) FAILED$",),
        red_marks=(r"^\S+\.(?:java|kt|scala|groovy):\d+: error: ", r"^\* What went wrong:$"),
    ),
    Runner(
        name="rspec",
        read=_read_rspec,
        programs=("rspec",),
        test_files=(r".*_tests?\.rb", r".*_spec\.rb"),
        named=named_files,
        configures=(".rspec",),
        config_options=("-r", "-O", "--options"),
        red=(r"^rspec \S+ # (?P<name>.+)$",),
        red_marks=(r"^  \d+\) ", r"^ +Failure/Error: "),
    ),
    Runner(
        name="phpunit",
        read=_read_phpunit,
        programs=("phpunit",),
        camel_case=("php",),
        named=named_files,
        configures=("phpunit.dist.xml", "phpunit.xml*"),
        config_options=("-c",),
        red=(r"^\d+\) (?P<name>[\w\\]+::\w.*)$(?!\nThis test did not )",),
    ),
    Runner(
        name="dotnet",
        read=_read_dotnet,
        verb_of="dotnet",
        closes=False,
        camel_case=("cs", "fs", "vb"),
        configures=("xunit.runner.json", "*.runsettings"),
        red=(r"^ +Failed (?P<name>\S.*?) \[[^\[\]]+\]$",),
        red_marks=(r"^ *Error Message:$", r"^.*\.\w+\(\d+,\d+\): error "),
    ),
)
