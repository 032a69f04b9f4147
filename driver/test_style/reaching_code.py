"""Finds changed code that reaches into its tests: the runner, assertions, the language. Pure.

Such code can be honest, so it is a doubt only: the grade of the evidence is lower, and a person
reads the work first. What the file does on the base already does not count.
"""

from __future__ import annotations

import ast
import posixpath
import re
import sys
from collections.abc import Collection, Iterator, Mapping

from driver.test_style.python_imports import dotted_name, imported_names
from state_store.values.lazy_pattern import lazy_pattern

_MOST_TOLD = 3
_RUNNERS = frozenset({"_pytest", "pytest", "pluggy", "unittest", "doctest", "nose"})
_FRAMES = frozenset(
    {"sys._getframe", "inspect.currentframe", "inspect.stack", "gc.get_objects", "gc.get_referrers"}
    | {"sys.settrace", "sys.setprofile", "sys.meta_path"}
)
_ALWAYS = ("__eq__", "__contains__")
_OFTEN_SET = ("sys.stdout", "sys.stderr", "sys.stdin", "sys.path", "sys.argv", "sys.excepthook")
_MODULES = sys.stdlib_module_names | _RUNNERS
_BY_SUFFIX: Mapping[str, str] = {
    ".js": r"""
        (?:\brequire\(|\bimport\(|\bimport\ |\bfrom\ )["'](?:
          (?:node:)?(?:assert|assert/strict|test|module) | @?(?:jest|vitest)(?:[/-][\w/-]+)?
          | expect | (?:mocha|chai|tape|should|ava|tap)(?:/[\w/.-]+)?)["']
        | \b(?:JSON|Array|Object|Number|String|Math|Promise|RegExp|console)
          (?:\.prototype)?\.\w+\ *=(?!=)
        | \bprocess\.std(?:out|err)\.write\ *=(?!=)
        | process\.(?:reallyExit|binding)\b | ["'][\w/.]*\.(?:test|spec)\.[cm]?[jt]sx?["']
        # The global functions of runners. A method of that name has a body.
        | \b(?:globalThis|global|window)(?:\.|\?\.|\[["'`])(?:expect|it|test|describe|jest|vi
          |specify|(?:before|after)(?:Each|All)?)\b
        | \{[^{}]*\b(?:expect|it|test|describe)\b[^{}]*\}\ *=\ *(?:globalThis|global|window)\b
        | \b(?:Object|Reflect)\.\w+\(\s*(?:globalThis|global|window)\b
        | \bSymbol\.for\(["'`][^"'`\n]*(?i:jest|vitest|mocha|chai|expect) | \bcurrentlyRunningTest\b
        | (?<![\w$.'"`\-])(?:before|after)(?:Each|All)\((?![^()]*\)\s*(?::[^{;\n]*)?\{)
        | \bexpect\.(?:extend|getState|setState)\b | \basymmetricMatch\b | \bcurrentTest(?:Name)?\b
        # The test that calls.
        | \brequire\.main\??\.\w+ | \bmodule\.parent\??\.\w+ | \barguments\.callee\b
        | \bprepareStackTrace\b | \bError\([^()]*\)\.stack\b
        | \b(?:JEST_WORKER_ID|VITEST\w*|NODE_TEST_\w+|MOCHA_\w+)\b | \b__vitest_\w+
    """,
    ".go": r"""
        "testing" | -test\.\w+ | //go:linkname\ .* | \bos\.Args\ *= | \bsyscall\.(?:Exec|Exit)\b
        | "[\w/.]*_test\.go"
    """,
    ".rs": r"""
        macro_rules!\ *(?:assert|assert_eq|assert_ne|panic)\b | \bset_hook\b
        | link_section | no_mangle | "[\w/.]*tests/[\w/.]*\.rs"
    """,
}
# A global function of a JavaScript runner is set to another, or asked for.
_GLOBAL_OF_TESTS = lazy_pattern(
    r"(?:(?:^|[;{}])\s*(?=\w+\s*=(?![=>]))|\btypeof )(?P<name>expect|it|test|describe)\b", re.M
)
_DECLARED = r"\b(?:let|var|const|function|import)\b[^;=]*\b{}\b|[(,]\s*{}\s*[,)]"
_BY_SUFFIX = {
    **_BY_SUFFIX,
    **dict.fromkeys((".cjs", ".mjs", ".ts", ".mts", ".cts", ".jsx", ".tsx"), _BY_SUFFIX[".js"]),
}


def reached(changed: Mapping[str, str], base: Mapping[str, str], tests: Collection[str]) -> str:
    """The first changed file that does so, and what it does; "" if none does. `changed` and `base`
    are texts by path, `tests` the paths of tests, which may do all this."""
    names = {posixpath.basename(path) for path in tests}
    for path, text in sorted(changed.items()):
        if path in tests:
            continue
        new = {*_signs(path, text, names)} - {*_signs(path, base.get(path, ""), names)}
        if new:
            return f"{path} reaches into what tests it: {', '.join(sorted(new)[:_MOST_TOLD])}"
    return ""


def _signs(path: str, text: str, tests: Collection[str]) -> Iterator[str]:
    suffix = posixpath.splitext(path)[1]
    if suffix == ".py":
        try:
            module = ast.parse(text)
        except (SyntaxError, ValueError):
            return
        yield from _in_python(module, tests)
    elif suffix in _BY_SUFFIX:
        for found in re.finditer(_BY_SUFFIX[suffix], text, re.X):
            yield found[0]
        if _BY_SUFFIX[suffix] == _BY_SUFFIX[".js"]:
            for found in _GLOBAL_OF_TESTS.finditer(text):
                if not re.search(_DECLARED.format(found["name"], found["name"]), text):
                    yield found[0].strip()


def _in_python(module: ast.Module, tests: Collection[str]) -> Iterator[str]:
    bound = imported_names(ast.walk(module))
    yield from (f"import {one}" for one in bound.values() if one.partition(".")[0] in _RUNNERS)
    yield from (one for one in bound.values() if one in _FRAMES)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            yield from _in_attribute(node, bound)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            if text in _RUNNERS or "PYTEST_" in text or posixpath.basename(text) in tests:
                yield repr(text)
        elif (
            isinstance(node, ast.Call) and node.args and dotted_name(node.func, bound) == "setattr"
        ):
            name = dotted_name(node.args[0], bound)
            if name in bound.values():
                yield f"setattr({name}, ...)"
        elif isinstance(node, ast.FunctionDef) and node.name in _ALWAYS and _is_true(node):
            yield f"{node.name} that is always true"


def _in_attribute(node: ast.Attribute, bound: Mapping[str, str]) -> Iterator[str]:
    """The use of a frame, or a new value for an attribute of Python's or of a runner's."""
    name = dotted_name(node, bound)
    top = name.partition(".")[0]
    if name in _FRAMES:
        yield name
    elif isinstance(node.ctx, ast.Store) and top in _MODULES and name not in _OFTEN_SET:
        yield f"{name} = ..."


def _is_true(function: ast.FunctionDef) -> bool:
    """True for a function that returns nothing but the constant True."""
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    return bool(returns) and all(
        isinstance(one.value, ast.Constant) and one.value.value is True for one in returns
    )
