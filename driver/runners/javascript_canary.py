"""The canary of `node --test`, jest, vitest, mocha and tape. Pure.

The canary is at the end of a real test file, in its style, so it needs no import of its own. Most
of these runners give each file a process or a world of its own, so the file is one that loads the
changed code, if possible. The files of a project's own configuration are not known: a file that the
command does not run is found out by its run.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial

from driver.runners.runner import Call, Canary, CanaryInput, NotApplicable, Plan, positional
from driver.test_command.invocations import program_name, without_starter
from driver.test_style.javascript_asserts import Names, failing
from driver.test_style.javascript_files import CODE_FILES, loaded, matches, stem
from driver.test_style.javascript_style import (
    assert_names,
    bound_to,
    call_of_groups,
    is_module,
    is_script,
    parts_of,
    style_of,
    tests_text,
)
from driver.test_style.javascript_suites import (
    MOCHA,
    TAPE,
    Suite,
    files_run,
    function_of_tests,
    may_hold,
    names_in,
    stops_by_itself,
)
from driver.test_style.selection import names_for, option_values
from state_store.values.lazy_pattern import lazy_pattern

MOCHA_CONFIG = r"(?:^|/)\.mocharc\.\w+$"
MAX_KINDS_READ = 8
_CODE = lazy_pattern(CODE_FILES)
_MAX_READ = 40


def planner(suite: Suite) -> Callable[[CanaryInput], Plan]:
    """The plan of a runner."""
    return partial(_plan, suite)


def _plan(suite: Suite, given: CanaryInput) -> Plan:
    """Add the canary to a test file that the command runs, as far as that is known."""
    call = given.call
    words = without_starter(call.words)
    options = words[1:] if program_name(words) == suite.runner else words[2:]
    if suite is TAPE and program_name(words) != "tape":
        return NotApplicable("the command calls no runner that has a canary test")
    if any(word.partition("=")[0] in suite.select for word in options):
        return NotApplicable("the command selects tests by name")
    named = [one for one in positional(options, (*suite.values, *suite.by_name))
             if one not in suite.verbs]  # fmt: skip
    hosts = list(_hosts(suite, given, named))
    if not hosts:
        return NotApplicable("the tree has no test file in which a test could stand")
    patterns = list(option_values(options, suite.by_name))
    for host in hosts:
        if names := names_for(given.nonce, patterns, given.texts[host]):
            break
    else:
        return NotApplicable("the command selects tests by name, and no test shows such a name")
    text, tried = _text(suite, given, host, hosts, names, grouped=not patterns)
    canary = Canary(
        suite.runner,
        host,
        text,
        names[: len(tried)],
        call.command,
        None if named else call.with_more(call.below(host)),
        amends=True,
        tries=tried,
    )
    if suite is MOCHA and stops_by_itself(options, _configs(suite, given)):
        # Another red test would end the run before the canary.
        selected = None if patterns else call.with_more(f"--grep={names[0].replace(' ', '.')}")
        canary = replace(canary, stops=True)
        if selected is not None:
            canary = replace(canary, command=selected, alone=None, selects=True)
    return canary


def _configs(suite: Suite, given: CanaryInput) -> list[str]:
    """The texts of a runner's configuration in the folder of the call."""
    paths = map(given.call.in_tree, suite.configs)
    return [text for path in paths if (text := given.texts.get(path, ""))]


def _hosts(suite: Suite, given: CanaryInput, named: Sequence[str]) -> Iterator[str]:
    """The test files in which a test could stand, the best first: run as the output of an earlier
    run shows, related to the changed code, not changed by the work."""
    top = f"{given.call.folder}/" if given.call.folder else ""
    code = [one for one in given.files
            if one.startswith(top) and _CODE.search(one) and may_hold(one)]  # fmt: skip
    stems = {stem(one) for one in given.changed}

    def order(file: str) -> tuple[bool, bool, bool, int, str]:
        return (
            given.call.below(file) not in given.output,
            stem(file) not in stems,
            file in given.changed,
            file.count("/"),
            file,
        )

    found = sorted(
        files_run(suite, code, named, _configs(suite, given), given.call.below), key=order
    )
    readable = [
        one for one in found[:_MAX_READ] if function_of_tests(suite, given.texts.get(one, ""))
    ]

    def related(file: str) -> bool:
        loads = loaded(file, given.files, given.texts)
        return stem(file) in stems or not loads.isdisjoint(given.changed)

    yield from sorted(readable, key=lambda one: (order(one)[0], not related(one), order(one)))


def _text(
    suite: Suite,
    given: CanaryInput,
    host: str,
    hosts: Sequence[str],
    names: Sequence[str],
    *,
    grouped: bool,
) -> tuple[str, tuple[str, ...]]:
    """The text of the file with the canary, and the assertion of each of its tests. Assertions of
    other files count if these load them in the same way."""
    source, texts = given.texts[host], given.texts
    called = names_in(suite, source)
    changed = [one for one in hosts if one in given.changed]
    read = [texts[one] for one in dict.fromkeys((host, *changed, *hosts))][:MAX_KINDS_READ]
    kinds = failing([one for one in read if names_in(suite, one) == called], called)
    tests = [(name, told) for name, (_, told) in zip(names, kinds, strict=False)]
    text = tests_text(
        style_of(source),
        function_of_tests(suite, source),
        "" if suite is TAPE or not grouped else call_of_groups(source),
        names[0],
        tests,
        called.tape,
    )
    tried = tuple(kind for kind, _ in kinds[: len(tests)])
    return f"{source.rstrip()}\n\n{text}\n", tried


_NODE_TEST = lazy_pattern(
    r"(?:^|[./_-])test\.[cm]?[jt]s$|(?:^|/)test-[^/]*\.[cm]?[jt]s$|(?:^|/)test/.*\.[cm]?[jt]s$"
)
_NOT_IMPORTED = lazy_pattern(r"(?:^|/)(?:scripts|bin|docs|examples)/|\.config\.[cm]?[jt]s$")
_NODE_BY_NAME, _NODE_SELECTS = "--test-name-pattern", ("--test-only", "--test-skip-pattern")
_MAX_READ_BY_NODE = 20


def plan_node(given: CanaryInput) -> Plan:
    """Add the canary to a test file of the command, or to a copy if the module system is
    unknown."""
    call, texts, words = given.call, given.texts, given.call.words
    if any(word.partition("=")[0] in _NODE_SELECTS for word in words):
        return NotApplicable("the command selects tests by name")
    patterns = list(option_values(words, (_NODE_BY_NAME,)))
    named = [word for word in words[1:] if not word.startswith("-") and word not in patterns]
    tests = _tests_of_node(given, named)
    if not tests:
        return NotApplicable("the tree has no test file")
    real = tests[0]
    source = texts.get(real, "")
    names = names_for(given.nonce, patterns, source)
    if names is None:
        return NotApplicable("the command selects tests by name, and no test shows such a name")
    is_esm = real in texts and (real.endswith((".mjs", ".mts")) or is_module(source))
    amends = is_esm or (real in texts and (real.endswith((".cjs", ".cts")) or is_script(source)))
    # The name of a copy decides its module system.
    kind = ".cjs" if real.endswith(".cjs") or real in texts else ".mjs"
    copy = posixpath.join(posixpath.dirname(real), f"{given.nonce}.test{kind}")
    path = real if amends else copy
    text, tried = _text_for_node(
        given, path, source, tests, names, as_module=is_esm or kind == ".mjs"
    )
    if amends:
        command = call.command
        alone = call.command if named else call.with_more(call.below(real))
    else:
        added = call.with_more(call.below(path))
        if named and added is None:
            return NotApplicable(
                "the command lists its test files, and Tidegate cannot add a file to it"
            )
        command = added if named and added else call.command
        alone = None if named else added
    return Canary(
        "node", path, text, names[: len(tried)], command, alone, amends=amends, tries=tried
    )


def found_by_node(call: Call, files: Collection[str]) -> list[str]:
    """The files that node runs if the call names none."""
    top = f"{call.folder}/" if call.folder else ""
    return [
        file
        for file in files
        if file.startswith(top) and "node_modules/" not in file and _NODE_TEST.search(file)
    ]


def _tests_of_node(given: CanaryInput, named: Sequence[str]) -> list[str]:
    """The test files of the command, the best host of a canary first: named, not changed by the
    work, because a changed file may manipulate its process, and a file that loads changed code."""
    below = given.call.below
    found = found_by_node(given.call, given.files)
    code = [one for one in given.files if _CODE.search(one)] if named else []
    by_name = [one for one in code for word in named if _is_file_of_node(word, below(one))]
    found = [*dict.fromkeys(by_name)] or found
    found.sort(key=lambda file: (file in given.changed, file.count("/"), file))
    del found[_MAX_READ_BY_NODE:]
    loading = {file for file in found if not _loaded(file, given).isdisjoint(given.changed)}
    return sorted(found, key=lambda file: (file in given.changed, file not in loading))


def _is_file_of_node(word: str, path: str) -> bool:
    """True if an argument of node names a file or is a pattern of it."""
    word = posixpath.normpath(word)
    return word == path or matches(word, path)


def _loaded(file: str, given: CanaryInput) -> set[str]:
    return loaded(file, given.files, given.texts)


def _text_for_node(
    given: CanaryInput,
    path: str,
    source: str,
    tests: Sequence[str],
    names: Sequence[str],
    *,
    as_module: bool,
) -> tuple[str, tuple[str, ...]]:
    """The text of a file with the canary, and the assertion of each of its tests. It loads the
    changed modules that other test files of the command load, if this one loads none."""
    run = _function_of_node(source)
    called = assert_names(source, global_expect=False)
    start = []
    if not (called.assert_ or called.functions or called.expect or called.should):
        called = Names(f"assert_{given.nonce}")
        start.append(_load(called.assert_, "node:assert", as_module=as_module))
    if not run:
        start.append(_load(f"test_{given.nonce}", "node:test", as_module=as_module))
        run = f"test_{given.nonce}.test"
    changed = [one for one in tests if one in given.changed]
    read = [given.texts.get(one, "") for one in dict.fromkeys((*changed, *tests))]
    kinds = failing(read[:MAX_KINDS_READ], called)
    style = style_of(source)
    written = [(name, told) for name, (_, told) in zip(names, kinds, strict=False)]
    parts = [style.written(one) for one in (*start, *_loads(given, path, tests, as_module))]
    text = "\n\n".join(
        (*(["\n".join(parts)] if parts else []), tests_text(style, run, "", "", written, ""))
    )
    tried = tuple(kind for kind, _ in kinds[: len(written)])
    return f"{source.rstrip()}\n\n{text}\n".lstrip("\n"), tried


def _function_of_node(source: str) -> str:
    """The function of `node:test` by which most tests of a file are declared, because work may have
    replaced just this one; "" if none shows."""
    parts = parts_of(source, "node:test").items()
    names = [name for name, part in parts if part in ("test", "it")]
    if whole := bound_to(source, "node:test"):
        names += [whole, f"{whole}.test", f"{whole}.it"]
    calls = {name: len(re.findall(rf"(?<![\w.$]){re.escape(name)}\(", source)) for name in names}
    return max(calls, key=lambda name: calls[name], default="")


def _load(name: str, module: str, *, as_module: bool) -> str:
    if as_module:
        return f'import {"* as " if module == "node:test" else ""}{name} from "{module}";'
    return f'const {name} = require("{module}");'


def _loads(given: CanaryInput, path: str, tests: Sequence[str], as_module: bool) -> list[str]:
    """The statements that load the changed modules which only other test files load."""
    own = _loaded(path, given) | _loaded(tests[0], given)
    if not own.isdisjoint(given.changed):
        return []
    others = set().union(*(_loaded(test, given) for test in tests[1:]))
    home = posixpath.dirname(path) or "."
    modules = [
        posixpath.relpath(file, home)
        for file in sorted(given.changed)
        if file in others
        and _CODE.search(file)
        and not _NODE_TEST.search(file)
        and not _NOT_IMPORTED.search(file)
    ]
    shown = json.dumps([name if name.startswith(".") else f"./{name}" for name in modules])
    load = "await import(new URL(path, import.meta.url).href)" if as_module else "require(path)"
    if not modules:
        return []
    return [f"for (const path of {shown}) {{\n  try {{\n    {load};\n  }} catch {{}}\n}}"]
