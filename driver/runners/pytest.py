"""pytest: its summary, the test files in a call, and its canary. The canary stands beside a test
that the command runs, else in a new file next to such a file. If the command names single tests, it
also names the canary."""

from __future__ import annotations

import ast
import fnmatch
import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from driver.runners.python_canary import (
    Planted,
    Selects,
    Wanted,
    is_test_file,
    module_names,
    planted,
)
from driver.runners.result import Counts, Found, numbers
from driver.runners.runner import (
    TAKES_VALUE,
    Call,
    Canary,
    CanaryInput,
    Named,
    NotApplicable,
    Plan,
    Report,
    Runner,
    Selection,
    is_folder,
    named_files,
    positional,
    with_selection,
)
from driver.test_command.build_scripts import Read, in_folder
from driver.test_command.invocations import Command
from driver.test_style.pytest_settings import CONFIGS, added_options, config_of, setting
from driver.test_style.selection import holds
from state_store.values.lazy_pattern import lazy_pattern

_PROGRAMS = ("pytest", "py.test")
_SELECTS_BY = (("-k", "--keyword"), ("-m", "--markers-expression"))
SELECTS = ("--lf", "--last-failed", "--sw", "--stepwise", "--pyargs")
_STOPS = lazy_pattern(r"-[a-z]*x[a-z]*$|--exitfirst$|--maxfail")
_USUAL_ROOTS = frozenset({"tests", "test", "testing"})

_HEADER = lazy_pattern(r"^=+ test session starts =+$", re.M)
_SUMMARY = lazy_pattern(
    r"^(?P<rule>=+ )?(?P<what>no tests (?:ran|collected)\b[^=\n]*?|\d[\d/]* [a-z][a-z ]*[^=\n]*?)"
    r" in \d+(?:\.\d+)?s(?: \([^)\n]*\))?(?(rule) =+)$",
    re.M,
)
_KNOWN = {"passed", "failed", "skipped", "deselected", "xfailed", "xpassed", "error", "errors"}
# The id of a test, or of a file that could not be loaded.
_ID = r"(?=\S*?(?:::|\.\w+(?: |$)))[^\s\[]+(?:\[.*?\](?= - |$))?(?= - |$)"
_FAILED_PART = lazy_pattern(r"^SUBFAIL(?:ED)?\b", re.M)
_AT_TEARDOWN = lazy_pattern(r"^_+ ERROR at teardown of .+ _+$", re.M)


def _read(text: str) -> Found:
    """All summary lines of the output. If a session header was printed, only lines framed by `===`
    count."""
    loud = _HEADER.search(text) is not None
    found, start = [], 0
    for match in _SUMMARY.finditer(text):
        what = match["what"]
        if match["rule"] is None and loud:
            continue
        if what.startswith("no tests") or "collected" in what or numbers(what).keys() & _KNOWN:
            found.append(_counts(what, text[start : match.start()]))
            start = match.end()
    return tuple(found)


def _counts(what: str, before: str) -> Counts:
    by_word = numbers(re.sub(r"\d+ subtests? \w+", "", what))
    errors = by_word.get("error", 0) + by_word.get("errors", 0)
    if "collected" in what:
        return Counts("pytest", errors, errors, 0)
    # A test with failed sub-tests is listed for each of them; an error at teardown is listed in
    # addition to its test.
    failed = max(by_word.get("failed", 0) - len(_FAILED_PART.findall(before)), 0)
    ran = by_word.get("passed", 0) + failed + max(errors - len(_AT_TEARDOWN.findall(before)), 0)
    skipped = sum(by_word.get(name, 0) for name in ("skipped", "xfailed", "xpassed"))
    return Counts("pytest", ran, failed + errors, skipped)


_FAILED = lazy_pattern(
    r"^(?:\[\w+\] )?(?P<word>FAILED|ERROR) \S*?::(?:\w+::)*(?P<name>\w+)(?:\[.*?\])?"
    r"(?: - (?P<why>.*))?$",
    re.M,
)
_SECTION = lazy_pattern(
    r"^_{3,} (?P<what>(?:ERROR at \w+ of )?)(?:\w+\.)*(?P<name>\w+)(?:\[.*\])? _{3,}$", re.M
)
_ERROR_LINE = lazy_pattern(r"^E +(?P<why>\S.*)$", re.M)
_BY_ASSERTION = lazy_pattern(r"(?:\w+\.)*(?:AssertionError|Failed)\b|assert\b|$")


def _failures(text: str) -> dict[str, str]:
    """The failed tests in the short summary, and in the sections of the report. The sections tell
    the whole reason."""
    found = {}
    for one in _FAILED.finditer(text):
        why = one["why"] or ""
        by_itself = one["word"] == "FAILED" and _BY_ASSERTION.match(why.rstrip("."))
        found[one["name"]] = "" if by_itself else why or "an error beside the test"
    sections = [*_SECTION.finditer(text)]
    ends = [*(one.start() for one in sections[1:]), len(text)]
    for one, end in zip(sections, ends, strict=False):
        errors = [line["why"] for line in _ERROR_LINE.finditer(text, one.end(), end)]
        if one["what"] or not errors:
            found.setdefault(one["name"], " ".join(filter(None, (one["what"], *errors[:1]))))
        elif any(map(_BY_ASSERTION.match, errors)):
            found[one["name"]] = ""
        else:
            found[one["name"]] = errors[-1]
    return found


def _named(words: Sequence[str], folder: str, read: Read) -> Iterator[Named]:
    """The test files in a call, and `python_files` from its options and from the configuration in
    its folder and the folders above."""
    yield from named_files(words, folder, read)
    files = (read(in_folder(folder, name)) for name in _values(words, "-c", "--config-file"))
    for text in (*_values(words, "-o", "--override-ini"), *files):
        yield from ((folder, pattern) for pattern in setting(text, "python_files"))
    while True:
        config = "\n".join(read(in_folder(folder, name)) for name in CONFIGS)
        yield from ((folder, pattern) for pattern in setting(config, "python_files"))
        if folder in ("", "."):
            return
        folder = posixpath.dirname(folder) or "."


def _values(words: Sequence[str], short: str, long: str) -> Iterator[str]:
    """Every value of an option."""
    for word, following in pairwise((*words, "")):
        if word in (short, long):
            yield following
        elif word.startswith(f"{long}="):
            yield word.removeprefix(f"{long}=")
        elif word.startswith(short):
            yield word.removeprefix(short)


def plan_pytest(given: CanaryInput) -> Plan:
    """Plan tests beside those that the command, with the configuration, selects. If it selects
    none that can be seen, it selects the canary instead."""
    call = given.call
    options = options_of(call.words)
    if any(word.partition("=")[0] in SELECTS for word in options):
        return NotApplicable("the command selects tests by name or by an earlier run")
    config = config_of(call.folder, given.texts)
    tests = tests_run(positional(options, TAKES_VALUE), config, given)
    if not tests:
        return NotApplicable("the tree has no test file of the command")
    usual = sorted(tests, key=_usual_first)
    new = posixpath.join(posixpath.dirname(usual[0]), f"test_{given.nonce}.py")
    patterns = setting(config, "python_functions") or ["test"]
    wanted = Wanted(
        usual,
        _selection((*added_options(config), *options)),
        lambda name: any(name.startswith(one) or fnmatch.fnmatch(name, one) for one in patterns),
    )
    found = planted(given, wanted, new)
    if found.amends or not any(any(_values(options, *names)) for names in _SELECTS_BY):
        return _with_command(given, found, config)
    found = planted(given, replace(wanted, selects=lambda names, _: bool(names)), new)
    return with_selection(
        given, options, ("-k", "-m"), lambda changed: _with_command(changed, found, config)
    )


def options_of(words: tuple[str, ...]) -> tuple[str, ...]:
    """The arguments of a call, behind the name of the program."""
    called = [re.split(r"[\\/]", word)[-1].removesuffix(".exe") for word in words]
    return words[next(at for at, name in enumerate(called) if name in _PROGRAMS) + 1 :]


def _selection(options: Sequence[str]) -> Selects:
    """The tests that `-k` and `-m` select; the last of each counts."""
    keyword, mark = ([*_values(options, short, long)][-1:] for short, long in _SELECTS_BY)

    def selects(names: tuple[str, str, str], marks: frozenset[str]) -> bool:
        words = [word.lower() for name in names for word in name.split("/")] + [*marks]
        return holds(
            "".join(keyword), lambda word: any(word.lower() in one for one in words)
        ) and holds("".join(mark), marks.__contains__)

    return selects


def _with_command(given: CanaryInput, found: Planted, config: str) -> Plan:
    """The canary with the command that runs it."""
    call, path = given.call, found.path
    named = positional(options_of(call.words), TAKES_VALUE)
    if found.amends:
        called, alone = _within(call, named, found)
        stops = any(map(_STOPS.match, (*added_options(config), *call.words)))
        if stops and len(found.tests) > 1 and called == call.command:
            # All tests of the canary must run, or one red test hides another.
            called = call.with_more("--maxfail=0") or called
    elif any(call.in_tree(word.partition("::")[0]) in given.files for word in named):
        called, alone = call.with_more("--maxfail=0", call.below(path)), None
    else:  # All tests of the file must run, or one red test hides another
        called = call.with_more("--maxfail=0") or call.command
        alone = call.with_more("--maxfail=0", call.below(path))
    if called is None:
        return NotApplicable(
            "the command lists its test files, and Tidegate cannot add a file to it"
        )
    return Canary(
        "pytest",
        path,
        found.text,
        found.names,
        called,
        alone,
        amends=found.amends,
        modules=module_names(given),
        tries=found.tries,
    )


def _within(call: Call, named: list[str], found: Planted) -> tuple[Command | None, Command | None]:
    """The command that also runs the canary in its file, and the command that runs it alone."""
    below = call.below(found.path)
    whole = [call.in_tree(word) for word in named if "::" not in word]
    one = any(call.in_tree(word.partition("::")[0]) == found.path for word in named)
    if not one or found.path in whole:
        return call.command, call.command if found.path in whole else call.with_more(below)
    ids = ("::".join(filter(None, (below, case, name))) for case, name in found.tests)
    added = call.with_more(*ids)
    return added, added


def tests_run(named: list[str], config: str, given: CanaryInput) -> list[str]:
    """The test files that run: files listed whole before files with single selected tests."""
    call, files = given.call, given.files
    paths = {call.in_tree(word.partition("::")[0]): "::" not in word for word in named}
    if single := [path for path in paths if path in files]:
        return [path for path in single if paths[path]] or single
    tops = [path for path in paths if path == "" or is_folder(path, files)]
    tops = tops or [call.in_tree(word) for word in setting(config, "testpaths")] or [call.folder]
    beginnings = tuple(f"{top}/" if top else "" for top in tops)
    return [file for file in files if is_test_file(file) and file.startswith(beginnings)]


def _usual_first(file: str) -> tuple[bool, int, str]:
    """Sort key for the choice of a file: a usual test folder first, then the fewest folders."""
    return _USUAL_ROOTS.isdisjoint(file.split("/")[:-1]), file.count("/"), file


_LINE_END = lazy_pattern(r"\r\n|\r|\n")  # as Python ends a comment
_CODING = lazy_pattern(r"coding[:=]")  # a codec could make code of the rest


def emptied(path: str, text: str) -> str | None:
    """The comments at the top and the docstring, for tests that read every test file."""
    name = posixpath.basename(path)
    if not name.endswith(".py") or name in ("__init__.py", "conftest.py"):
        return None
    try:
        docstring = ast.get_docstring(ast.parse(text), clean=False)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        docstring = None
    comments = []
    for line in _LINE_END.split(text):
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#") and not _CODING.search(line):
            comments.append(line)
    body = [ascii(docstring)] if docstring else []
    return "".join(f"{line}\n" for line in (*comments, *body))


def leaves_out(call: Call, files: Collection[str], left_out: Sequence[str]) -> Selection | None:
    """By `--ignore` in the environment, which reaches pytest behind other programs as well. The
    ignored files are not imported."""
    del files
    words = (f"--ignore={call.below(path)}" for path in left_out)
    return Selection(call.command, (("PYTEST_ADDOPTS", shlex.join(words)),))


RUNNERS = (
    Runner(
        name="pytest",
        read=_read,
        report=Report(
            variable="PYTEST_ADDOPTS",
            options="--junitxml={path} -o junit_family=xunit1",
            name="$PYTEST_CURRENT_TEST",  # pytest replaces it within a test, where it has a value
            rival="junit",
            configs=CONFIGS,
            notice=r"^-+ generated xml file: {path} -+\n",
            broken=r"unrecognized arguments:.*--junitxml",
        ),
        programs=_PROGRAMS,
        module="pytest",
        test_files=(r"test_.*\.py", r".*_tests?\.py", r"tests?\.py"),
        named=_named,
        configures=("conftest.py", *CONFIGS),
        config_options=("-c", "-p"),
        plan=plan_pytest,
        emptied=emptied,
        leaves_out=leaves_out,
        failures=_failures,
        canary_reads=(
            r"(?:^|/)(?:test[^/]*|[^/]*_test)\.py\Z",
            *(rf"(?:^|/){re.escape(name)}\Z" for name in CONFIGS),
        ),
        red=(
            rf"^(?:FAILED|ERROR|SUBFAIL(?:ED)?(?:\[.*?\]|\(.*?\))?) (?P<name>{_ID})",
            r"^(?=\S+::)(?P<name>.+?) (?:FAILED|ERROR) +\[ *\d+%\]$",
            r"^\[gw\d+\] \[ *\d+%\] (?:FAILED|ERROR) (?P<name>\S+::.*\S) *$",
        ),
        red_marks=(r"^_{3,} .+ _{3,}$", r"^E  ", r"^\S+:\d+: \w*(?:Error|Exception|Failure)\b"),
    ),
)
