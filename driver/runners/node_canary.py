"""The canary of `node --test`. Pure.

The canary is at the end of a real test file, in its style. Node runs each file in its own process,
so the file is one that loads the changed code, if possible. If the module system of the file is
unknown, the canary is at the end of a copy.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from driver.runners.runner import Call, Canary, CanaryInput, NotApplicable, Plan
from driver.test_style.javascript_asserts import failing, used_methods

CODE_FILES = r"\.[cm]?js$"
_TESTS = (
    r"(?:^|[./_-])test\.[cm]?js$|(?:^|/)test-[^/]*\.[cm]?js$|^test\.[cm]?js$",
    r"(?:^|/)test/.*\.[cm]?js$",
)
_TEST_FILE = re.compile("|".join(_TESTS))
_CODE = re.compile(CODE_FILES)
_NOT_IMPORTED = re.compile(r"(?:^|/)(?:scripts|bin|docs|examples)/|\.config\.[cm]?js$")
_PATTERN, _SELECTS = "--test-name-pattern", ("--test-only", "--test-skip-pattern")
_MAX_READ, _MAX_FOLLOWED, _MAX_KINDS_READ = 20, 200, 8

_MODULE = re.compile(r"^\s*(?:import\s[^(]*from\s|import\s*[\"'{*]|export\s)", re.M)
_REQUIRES = re.compile(r"\brequire\([\"']")
_LOADS = re.compile(r"""(?:\brequire\(|\bfrom\s|\bimport\s*\(?)\s*["'](\.[^"']*)["']""")
_ENDINGS = ("", ".js", ".mjs", ".cjs", "/index.js", "/index.mjs", "/index.cjs")
_BOUND = r"""(?:import\s+(?:\*\s+as\s+)?{name}\s+from\s+|{name}\s*=\s*require\()["']{module}["']"""
_TEST_BOUND = re.compile(
    r"""(?:import|const|let|var)\s+(?:(?P<whole>test|it)\b|\{(?P<parts>[^}]*)\})\s*"""
    r"""(?:=\s*require\(|from)\s*["']node:test["']"""
)
_TITLE = re.compile(r"""\b(?:test|it)\(\s*(["'`])(?P<title>(?:(?!\1)[^\\\n$])*)\1""")
_MORE = ("again", "too", "as well", "at last", "besides", "by all", "for sure", "in short")


def plan_node(given: CanaryInput) -> Plan:
    """Add the canary to a test file of the command, or to a copy if the module system is
    unknown."""
    call, texts = given.call, given.texts
    words = call.words
    if any(word.partition("=")[0] in _SELECTS for word in words):
        return NotApplicable("the command selects tests by name")
    patterns = _patterns(words)
    values = {following for word, following in pairwise(words)
              if word == _PATTERN}  # fmt: skip
    named = [word for word in words[1:] if not word.startswith("-") and word not in values]
    tests = _tests(given, [call.in_tree(word) for word in named])
    if not tests:
        return NotApplicable("the tree has no test file")
    real = tests[0]
    source = texts.get(real, "")
    is_module = real in texts and (real.endswith(".mjs") or bool(_MODULE.search(source)))
    is_script = real in texts and (real.endswith(".cjs") or bool(_REQUIRES.search(source)))
    names = _names(given.nonce, patterns, source)
    if names is None:
        return NotApplicable("the command selects tests by name, and no test shows such a name")
    # The name of a copy decides its module system.
    kind = ".cjs" if real.endswith(".cjs") or real in texts else ".mjs"
    amends = is_module or is_script
    copy = posixpath.join(posixpath.dirname(real), f"{given.nonce}.test{kind}")
    path = real if amends else copy
    text, tried = _text(given, path, source, tests, names, as_module=is_module or kind == ".mjs")
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


def _patterns(words: Sequence[str]) -> list[str]:
    """The patterns of names that select tests."""
    pairs = zip(words, (*words[1:], ""), strict=True)
    attached = (word.partition("=")[2] for word in words if word.startswith(f"{_PATTERN}="))
    return [*(value for word, value in pairs if word == _PATTERN), *attached]


def _names(nonce: str, patterns: Sequence[str], source: str) -> tuple[str, ...] | None:
    """The names of the canary's tests: selected by the patterns, like names of tests in the file
    if necessary. None if no name is known that the command selects."""
    said = nonce.replace("_", " ")
    titles = [one["title"] for one in _TITLE.finditer(source)]
    for start in (said, *(f"{title} {said}" for title in titles)):
        names = (start, *(f"{start} {more}" for more in _MORE))
        if not patterns or any(all(_selects(one, name) for name in names) for one in patterns):
            return names
    return None


def _selects(pattern: str, name: str) -> bool:
    """True if a pattern selects a name, as far as Python reads it like JavaScript."""
    whole = re.fullmatch(r"/(.*)/([a-z]*)", pattern)
    try:
        flags = re.I if whole and "i" in whole[2] else re.NOFLAG
        return re.search(whole[1] if whole else pattern, name, flags) is not None
    except re.error:
        return False


def found_by_node(call: Call, files: Collection[str]) -> list[str]:
    """The files that node runs if the call names none."""
    top = f"{call.folder}/" if call.folder else ""
    return [
        file
        for file in files
        if file.startswith(top) and "node_modules/" not in file and _TEST_FILE.search(file)
    ]


def _tests(given: CanaryInput, named: Sequence[str]) -> list[str]:
    """The test files of the command, the best host of a canary first: named, not changed by the
    work, because a changed file may manipulate its process, and a file that loads changed code."""
    found = found_by_node(given.call, given.files)
    if any(file in named for file in found):
        found = [file for file in found if file in named]
    found.sort(key=lambda file: (file in given.changed, file.count("/"), file))
    del found[_MAX_READ:]
    loading = {file for file in found if not _loaded(file, given).isdisjoint(given.changed)}
    return sorted(found, key=lambda file: (file in given.changed, file not in loading))


def _loaded(file: str, given: CanaryInput) -> set[str]:
    """The files of the tree that a file loads, itself and through others, as far as text shows."""
    seen, left = set[str](), [file]
    while left and len(seen) < _MAX_FOLLOWED:
        at = left.pop()
        for one in _LOADS.findall(given.texts.get(at, "")):
            whole = posixpath.normpath(posixpath.join(posixpath.dirname(at), one))
            target = next((whole + end for end in _ENDINGS if whole + end in given.files), "")
            if target and target not in seen:
                seen.add(target)
                left.append(target)
    return seen


@dataclass(frozen=True, slots=True)
class _Style:
    """The quotes, the ends of statements and the indentation of a test file."""

    quote: str
    end: str
    indent: str


def _style(source: str) -> _Style:
    """The style that most lines of the file have."""
    indents = re.findall(r"^([ \t]+)\S", source, re.M)
    lines = [line for line in source.splitlines() if line.strip()]
    ends = sum(line.endswith(";") for line in lines)
    quote = "'" if source.count("'") > source.count('"') else '"'
    return _Style(quote, "" if lines and not ends else ";", min(indents, key=len, default="  "))


def _text(
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
    style = _style(source)
    run, called = _bound_test(source), _bound_assert(source)
    start = []
    if not called:
        called = f"assert_{given.nonce}"
        start.append(_load(called, "node:assert", as_module=as_module))
    if not run:
        start.append(_load(f"test_{given.nonce}", "node:test", as_module=as_module))
        run = f"test_{given.nonce}.test"
    changed = [one for one in tests if one in given.changed]
    read = [given.texts.get(one, "") for one in dict.fromkeys((*changed, *tests))]
    tried, blocks = [], []
    for name, (kind, statement) in zip(
        names, failing(used_methods(read[:_MAX_KINDS_READ]), called), strict=False
    ):
        returned = "return " if "Promise" in statement else ""
        blocks.append(f'{run}("{name}", () => {{\n  {returned}{statement};\n}});')
        tried.append(kind)
    parts = [*start, *_loads(given, path, tests, as_module=as_module)]
    text = "\n\n".join((*(["\n".join(parts)] if parts else []), *blocks))
    text = text.replace('"', style.quote).replace("\n  ", f"\n{style.indent}")
    if not style.end:
        text = re.sub(r";$", "", text, flags=re.M)
    return f"{source.rstrip()}\n\n{text}\n".lstrip("\n"), tuple(tried)


def _load(name: str, module: str, *, as_module: bool) -> str:
    if as_module:
        return f'import {"* as " if module == "node:test" else ""}{name} from "{module}";'
    return f'const {name} = require("{module}");'


def _loads(given: CanaryInput, path: str, tests: Sequence[str], *, as_module: bool) -> list[str]:
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
        and not _TEST_FILE.search(file)
        and not _NOT_IMPORTED.search(file)
    ]
    shown = json.dumps([name if name.startswith(".") else f"./{name}" for name in modules])
    load = "await import(new URL(path, import.meta.url).href)" if as_module else "require(path)"
    if not modules:
        return []
    return [f"for (const path of {shown}) {{\n  try {{\n    {load};\n  }} catch {{}}\n}}"]


def _bound_test(source: str) -> str:
    """The name by which a file calls `test` or `it` of `node:test`; "" if it does not show."""
    for found in _TEST_BOUND.finditer(source):
        parts = {part.strip() for part in (found["parts"] or "").split(",")}
        if name := found["whole"] or next((one for one in ("test", "it") if one in parts), ""):
            return name
    return ""


def _bound_assert(source: str) -> str:
    """`assert` if a file binds it to the module of this name; "" otherwise."""
    module = r"(?:node:)?assert(?:/strict)?"
    bound = re.search(_BOUND.format(name="assert", module=module), source)
    return "assert" if bound else ""
