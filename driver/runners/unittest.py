"""unittest and derived runners: the summary, discovery, named tests and the canary. The canary
stands in a class of a module that the command loads, else in a new file. Discovery finds it, or the
command gets the names of its module or tests."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from driver.runners.python_canary import Planted, Wanted, module_names, planted
from driver.runners.result import Counts, Found
from driver.runners.runner import (
    Call,
    Canary,
    CanaryInput,
    Named,
    NotApplicable,
    Plan,
    Runner,
    is_folder,
    positional,
    with_selection,
)
from driver.test_command.build_scripts import Read, in_folder
from driver.test_command.invocations import Command
from driver.test_style.selection import matches
from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

_START, _PATTERN = ("-s", "--start-directory"), ("-p", "--pattern")
_TAKES_VALUE = (*_START, *_PATTERN, "-t", "--top-level-directory", "-k")
_DOTTED = lazy_pattern(r"\w+(?:\.\w+)+")

_SUMMARY = lazy_pattern(
    r"^-{20,}\nRan (\d+) tests? in [\d.,]+s\n\n(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$",
    re.M,
)
_PROGRESS = lazy_pattern(r"^[.FEsxu]+$", re.M)
# Fixtures of a class or module (`setUpClass`) are reported like tests, but "Ran" leaves them out.
_NOT_PASSED = lazy_pattern(r"^(?:FAIL|ERROR): ((?!setUp|tearDown)\w+ \([^()]*\))", re.M)
_RESULT = lazy_pattern(r"([a-z]+(?: [a-z]+)?)=(\d+)")


def _read(text: str) -> Found:
    """The summaries. "Ran" includes skipped tests, except in Python 3.12.1."""
    found, start = [], 0
    for match in _SUMMARY.finditer(text):
        by_word = {name: int(number) for name, number in _RESULT.findall(match[2] or "")}
        reported, skipped = int(match[1]), by_word.get("skipped", 0)
        expected = by_word.get("expected failures", 0) + by_word.get("unexpected successes", 0)
        # The marks and the reports of failures show if "Ran" includes the skipped tests. A test has
        # one mark, but one with failed subtests has a mark and a report for each of them.
        before = text[start : match.start()]
        marks = "".join(_PROGRESS.findall(before))
        done = sum(map(marks.count, ".xu")) + len({*_NOT_PASSED.findall(before)})
        left_out = skipped and done == reported
        ran = reported - expected - (0 if left_out else skipped)
        failed = by_word.get("failures", 0) + by_word.get("errors", 0)
        found.append(Counts("unittest", max(ran, 0), failed, skipped + expected))
        start = match.end()
    return tuple(found)


_FAILED = lazy_pattern(
    r"^(FAIL|ERROR): (\w+)(?: \(.*)?$\n(?s:(.*?))(?=^={70}$|^-{70}\nRan |\Z)", re.M
)


def _failures(text: str) -> dict[str, str]:
    """The failed tests of the report. A test with an error did not fail by its assertion; the last
    line of its traceback tells why."""
    found = {}
    for word, name, report in _FAILED.findall(text):
        lines = report.strip().splitlines()
        found[name] = "" if word == "FAIL" else (lines[-1] if lines else "an error")
    return found


@dataclass(frozen=True, slots=True)
class Discovery:
    """The start of a discovery, a folder or a dotted package, and the pattern of file names."""

    start: str
    pattern: str


def discovery_of(options: Sequence[str]) -> Discovery | None:
    """The discovery that the arguments after `unittest` request; None if they name modules."""
    named = named_in(options)
    if named and "discover" not in options:
        return None
    start, pattern = (*named, "", "")[:2]
    start, pattern = (
        option_value(options, *_START) or start,
        option_value(options, *_PATTERN) or pattern,
    )
    return Discovery(start or ".", pattern or "test*.py")


def named_in(options: Sequence[str]) -> list[str]:
    return [word for word in positional(options, _TAKES_VALUE) if word != "discover"]


def option_value(options: Sequence[str], short: str, long: str) -> str:
    """The last value of an option, parsed as by argparse, which unittest uses."""
    found = ""
    for word, following in pairwise((*options, "")):
        name, given, value = word.partition("=")
        if name == short or (len(name) > len("--") and long.startswith(name)):
            found = value if given else following
        elif word.startswith(short):
            found = word.removeprefix(short)
    return found


def _named(words: Sequence[str], folder: str, read: Read) -> Iterator[Named]:
    """The files that `checks.a.Case.test_x` or `checks/a.py` may mean, and the files of a
    discovery. A dotted package is also searched as a folder."""
    del read
    options = words[words.index("unittest") + 1 :]
    for word in options:
        parts = word.split(".")
        paths = ("/".join(parts[:end]) + ".py" for end in range(1, len(parts) + 1))
        yield from (in_folder(folder, path) for path in (word, *paths) if path.endswith(".py"))
    if asked := discovery_of(options):
        yield in_folder(folder, asked.start), asked.pattern
        if _DOTTED.fullmatch(asked.start):
            yield in_folder(folder, asked.start.replace(".", "/")), asked.pattern


def plan_unittest(given: CanaryInput) -> Plan:
    """Plan methods beside those that the command selects. If it selects none that can be seen, it
    selects the canary instead."""
    options = options_of(given.call)
    found = _planned(given, options)
    if isinstance(found, NotApplicable) or found.amends or not _patterns(options):
        return found
    return with_selection(
        given, options, ("-k",), lambda changed: _planned(changed, options_of(changed.call))
    )


def options_of(call: Call) -> tuple[str, ...]:
    return call.words[call.words.index("unittest") + 1 :]


def _patterns(options: Sequence[str]) -> list[str]:
    """The patterns that select tests, of `-k X`, `-k=X` and `-kX`."""
    found = [following for word, following in pairwise((*options, "")) if word == "-k"]
    attached = (word.removeprefix("-k") for word in options if re.match(r"-k.", word))
    return [*found, *(word.removeprefix("=") for word in attached)]


def _planned(given: CanaryInput, options: tuple[str, ...]) -> Plan:
    named = named_in(options)
    if discovery := discovery_of(options):
        return _discovered(given, discovery, options, named)
    modules = {word: path for word in named if (path := module_file(word, given.call, given.files))}
    if not modules:
        return NotApplicable("the tree has no module that the command names")
    return _in_modules(given, modules)


def _canary(given: CanaryInput, found: Planted, command: Command, alone: Command | None) -> Canary:
    return Canary(
        "unittest",
        found.path,
        found.text,
        found.names,
        command,
        alone,
        amends=found.amends,
        modules=module_names(given),
        tries=found.tries,
        stops=not {"-f", "--failfast"}.isdisjoint(options_of(given.call)),
    )


def _planted(given: CanaryInput, tests: Collection[str], new: str) -> Planted:
    """The canary in one of these test files."""
    # A selection of the canary itself is no selection among the tests beside it.
    patterns = [one for one in _patterns(options_of(given.call)) if one != given.nonce]

    def selects(names: tuple[str, str, str], marks: frozenset[str]) -> bool:
        del marks
        module = given.call.below(names[0]).removesuffix(".py").replace("/", ".")
        return matches(patterns, ".".join((module, *names[1:])))

    ordered = sorted(tests, key=lambda file: (file.count("/"), file))
    wanted = Wanted(ordered, selects, lambda name: name.startswith("test"), functions=False)
    return planted(given, wanted, new)


def _in_modules(given: CanaryInput, modules: Mapping[str, str]) -> Plan:
    """Put the canary into a named module, or beside a test if the arguments name only parts of
    modules."""
    call = given.call
    # An argument that ends as the path does names the whole module, not a class of it.
    whole = set()
    for word, path in modules.items():
        plain = word.removesuffix(".py").replace("\\", "/").replace(".", "/").lstrip("/")
        if f"/{path}".endswith(f"/{plain}.py"):
            whole.add(path)
    folder = posixpath.dirname(next(iter(modules.values())))
    new = posixpath.join(folder, f"test_{given.nonce}.py")
    if (found := _planted(given, whole, new)).amends:
        return _canary(given, found, call.command, call.command)
    parts = {path for path in modules.values() if not path.endswith("__init__.py")}
    found = _planted(given, parts, new)
    dotted = call.below(found.path).removesuffix(".py").replace("/", ".")
    names = [f"{dotted}.{case}.{name}" for case, name in found.tests] if found.amends else [dotted]
    command = call.with_more(*names)
    if command is None:
        return NotApplicable(
            "the command lists its modules, and Tidegate cannot add a module to it"
        )
    return _canary(given, found, command, command if found.amends else None)


def _discovered(
    given: CanaryInput, discovery: Discovery, options: tuple[str, ...], named: list[str]
) -> Plan:
    call, files = given.call, given.files
    folder = call.in_tree(discovery.start)
    if folder and not is_folder(folder, files):
        folder = call.in_tree(discovery.start.replace(".", "/"))
    pattern = discovery.pattern
    name = pattern.replace("*", f"_{given.nonce}", 1).replace("*", "").lstrip("_")
    if not re.fullmatch(r"[A-Za-z]\w*\.py", name) or (folder and not is_folder(folder, files)):
        return NotApplicable("Tidegate cannot tell which files the command discovers")
    loaded = [file for file in files if is_loaded(file, folder, pattern, files)]
    found = _planted(given, loaded, posixpath.join(folder, name))
    alone = ("discover", "-p", posixpath.basename(found.path))[1 if "discover" in options else 0 :]
    plain = "discover" in options or not options
    more = call.with_more(*alone) if plain and len(named) < 2 else None
    return _canary(given, found, call.command, more)


def is_loaded(file: str, folder: str, pattern: str, files: Collection[str]) -> bool:
    """True if discovery from `folder` loads a file: only packages may be between them."""
    above, name = posixpath.split(file)
    if not fnmatch.fnmatchcase(name, pattern):
        return False
    while above != folder:
        if not above or f"{above}/__init__.py" not in files:
            return False
        above = posixpath.dirname(above)
    return True


def module_file(word: str, call: Call, files: Collection[str]) -> str:
    """The file of the module that `tests.test_a.Case.test_x` or `tests/test_a.py` names."""
    if word.endswith(".py"):
        path = call.in_tree(word)
        return path if path in files else ""
    parts = word.split(".")
    for end in range(len(parts), 0, -1):
        path = call.in_tree("/".join(parts[:end]))
        for file in (f"{path}.py", f"{path}/__init__.py"):
            if file in files:
                return file
    return ""


RUNNERS = (
    Runner(
        name="unittest",
        read=_read,
        module="unittest",
        stream="err",
        test_files=(r"test_.*\.py", r".*_tests?\.py", r"tests?\.py"),
        named=_named,
        configures=("unittest.cfg",),
        plan=plan_unittest,
        failures=_failures,
        canary_reads=(r"(?:^|/)(?:test[^/]*|[^/]*_test)\.py\Z",),
        red=(r"^(?:FAIL|ERROR|UNEXPECTED SUCCESS): (?P<name>\S+ \([\w.]+\))",),
        red_marks=(r"^\w+(?:\.\w+)*(?:Error|Exception|Failure)\b",),
    ),
)
