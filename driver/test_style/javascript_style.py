"""The style of a JavaScript or TypeScript test file: how it calls tests and assertions, and how it
is written. A test in the same style can be added to it. Pure, by regular expressions: no parser of
these languages is at hand."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from driver.test_style.javascript_asserts import FUNCTION, MESSAGE, Names
from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

_MODULE = lazy_pattern(r"^\s*(?:import\s[^(]*from\s|import\s*[\"'{*]|export\s)", re.M)
_REQUIRES = lazy_pattern(r"\brequire\([\"']")
_CALL = lazy_pattern(r"""(?<![\w.$])(it|test|specify)(?:\.\w+)*\((?P<title>\s*["'`])?""")
_GROUP = lazy_pattern(r"^(describe|context|suite)(?:\.\w+)?\(", re.M)
_TEST_AT_TOP = lazy_pattern(r"^(?:it|test|specify)\(", re.M)
_ONLY = lazy_pattern(r"\b(?:it|test|specify|describe|context|suite)\.only\(")
_ARROW = lazy_pattern(r"(\(\w*\)|\b\w+) => \{")
_FUNCTION = lazy_pattern(r"\bfunction( ?)\(")
_BINDING = (
    r"""(?:import\s+|(?:const|let|var)\s+|,\s*){name}\s*(?:=\s*(?:require\(|await\s+import\()|from\s)"""
    r"""\s*["']{module}["']\)?(?P<more>(?:\.\w+)*)"""
)
_PARTS = (
    r"""(?:import|const|let|var)\s+(?:\w+\s*,\s*)?\{{(?P<parts>[^}}]*)\}}\s*"""
    r"""(?:=\s*require\(\s*|from\s+)["']{module}["']"""
)
_NODE_ASSERT = r"(?:node:)?assert(?:/strict)?"
_ASSERT_MODULES = lazy_pattern(r"""["']((?:[\w:@./-]*)(?:assert|chai|expect|should)[\w./-]*)["']""")


@dataclass(frozen=True, slots=True)
class Style:
    """The quotes, the ends of statements, the indentation and the functions of a file."""

    quote: str
    end: str
    indent: str
    is_arrow: bool
    space: str  # before the brackets of a function
    brackets: bool  # around a single argument of an arrow function

    def head(self, argument: str) -> str:
        """The start of a function with this argument, "" for none."""
        if not self.is_arrow:
            return f"function{self.space}({argument}) {{"
        return f"({argument}) => {{" if self.brackets or not argument else f"{argument} => {{"

    def returning(self, value: str) -> str:
        """A function that returns a value."""
        if self.is_arrow:
            return f"() => {value}"
        return f"function{self.space}() {{ return {value}; }}"

    def written(self, text: str) -> str:
        """A text with double quotes, semicolons and an indentation of two, in this style."""
        lines = []
        for line in text.split("\n"):
            inner = line.lstrip(" ")
            lines.append(self.indent * ((len(line) - len(inner)) // 2) + inner)
        text = "\n".join(lines).replace('"', self.quote)
        return text if self.end else re.sub(r";$", "", text, flags=re.M)


def style_of(source: str) -> Style:
    """The style that most of a file has."""
    indents = re.findall(r"^([ \t]+)[^\s*]", source, re.M)
    lines = [line for line in source.splitlines() if line.strip()]
    ends = sum(line.rstrip().endswith(";") for line in lines)
    quote = "'" if source.count("'") > source.count('"') else '"'
    functions, arrows = _FUNCTION.findall(source), _ARROW.findall(source)
    bare = sum(not one.startswith("(") for one in arrows)
    return Style(
        quote=quote,
        end="" if lines and not ends else ";",
        indent=min(indents, key=len, default="  "),
        is_arrow=len(arrows) >= len(functions),
        space=" " if functions.count(" ") * 2 >= len(functions) else "",
        brackets=bare * 2 <= sum(one != "()" for one in arrows),
    )


def is_module(source: str) -> bool:
    """True for a file with statements `import` or `export`."""
    return _MODULE.search(source) is not None


def is_script(source: str) -> bool:
    """True for a file that calls `require`."""
    return _REQUIRES.search(source) is not None


def call_of_tests(source: str) -> str:
    """The function by which most tests of a file are declared; "" if none shows or another selects
    single tests."""
    found = Counter[str]()
    for one in _CALL.finditer(source):
        if not re.search(rf"\bfunction {one[1]}\(", source):  # a helper of the file's own
            found[one[1]] += 100 if one["title"] else 1
    return found.most_common(1)[0][0] if found and not _ONLY.search(source) else ""


def call_of_groups(source: str) -> str:
    """The function that groups the tests at the top of a file; "" for tests at the top."""
    found = Counter(_GROUP.findall(source))
    return found.most_common(1)[0][0] if found and not _TEST_AT_TOP.search(source) else ""


def bound_to(source: str, module: str) -> str:
    """The name that a file binds to a module as a whole; "" for none."""
    found = re.search(_BINDING.format(name=r"(?:\*\s+as\s+)?(?P<name>\w+)", module=module), source)
    return found["name"] if found else ""


def parts_of(source: str, module: str) -> dict[str, str]:
    """The names that a file binds to parts of a module: the part by its name in the file."""
    found: dict[str, str] = {}
    for match in re.finditer(_PARTS.format(module=module), source):
        for part in match["parts"].split(","):
            words = re.split(r"\s+as\s+|\s*:\s*", part.strip())
            if words[0].isidentifier() and words[-1].isidentifier():
                found[words[-1]] = words[0]
    return found


def assert_names(source: str, *, global_expect: bool) -> Names:
    """The names by which a file calls assertions. Some runners have a global `expect`."""
    chai = parts_of(source, "chai")
    called = next((name for name, part in chai.items() if part == "assert"), "")
    called = called or bound_to(source, _NODE_ASSERT)
    if not called and re.search(r"(?<![\w.])assert(?:\.\w+)*\(", source):
        called = "assert"
    expects = re.search(r"(?<![\w.])expect\(", source) or global_expect
    return Names(
        assert_=called,
        functions=tuple(sorted(parts_of(source, _NODE_ASSERT).items())),
        modules=tuple(sorted({*_ASSERT_MODULES.findall(source)})),
        expect="expect" if expects else "",
        should=".should." in source,
    )


def tests_text(
    style: Style, call: str, group: str, title: str, tests: Sequence[tuple[str, str]], argument: str
) -> str:
    """The text of tests, each a name with its statement, in a group if there is one. `argument` is
    the parameter of each test's function, for tests that have to end by it."""
    blocks = []
    for name, statement in tests:
        told = FUNCTION.sub(style.returning(r"\1"), statement).replace(MESSAGE, name)
        start = "return " if "Promise" in told and not told.startswith("return ") else ""
        end = f"\n  {argument}.end();" if argument else ""
        head = style.head(argument)
        blocks.append(f'{call}("{name}", {head}\n  {start}{told};{end}\n}});')
    text = "\n\n".join(blocks)
    if group:
        inner = "\n".join(f"  {line}" if line else "" for line in text.split("\n"))
        text = f'{group}("{title}", {style.head("")}\n{inner}\n}});'
    return style.written(text)
