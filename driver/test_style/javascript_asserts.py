"""The kinds of assertions that JavaScript tests use, each with a statement that must fail. Pure.

Known are the assertions of node and chai, the `expect` of jest and of chai, `should`, the object
that tape gives to a test, and an error that a test throws by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from state_store.values.lazy_dataclass import dataclass
from state_store.values.lazy_pattern import lazy_pattern

MESSAGE = "{message}"  # stands for the name of the test in a statement
FUNCTION = lazy_pattern(r"<(.+)>")  # stands for a function that returns what is inside
_THROW = "throw", f'throw new Error("{MESSAGE}")'
_MAX = 8
_NOT_JSON = '<JSON.parse("{")>'

# Arguments of the methods of `assert`, of node and of chai.
_ASSERTS: Mapping[str, str] = {
    "": "false",
    "ok": "false",
    "equal": "1, 2",
    "notEqual": "1, 1",
    "strictEqual": '"a", "b"',
    "notStrictEqual": '"a", "a"',
    "deepEqual": "[1], [2]",
    "deepStrictEqual": "[1], [2]",
    "notDeepEqual": "[1], [1]",
    "throws": "<[1]>",
    "doesNotThrow": _NOT_JSON,
    "match": '"b", /a/',
    "fail": "",
    "partialDeepStrictEqual": "[1], [2]",
    "notDeepStrictEqual": "[1], [1]",
    "rejects": "<Promise.resolve(1)>",
    "doesNotReject": "<Promise.reject(new Error())>",
    "doesNotMatch": '"a", /a/',
    "ifError": "1",
    "isTrue": "false",
    "isFalse": "true",
    "isOk": "false",
    "isNotOk": "true",
    "isNull": "1",
    "isNotNull": "null",
    "isUndefined": "1",
    "isDefined": "undefined",
    "isArray": "1",
    "isString": "1",
    "isObject": "1",
    "isFunction": "1",
    "isNumber": '"a"',
    "isAbove": "1, 2",
    "isBelow": "2, 1",
    "isEmpty": "[1]",
    "exists": "null",
    "include": "[1], 2",
    "notInclude": "[1], 1",
    "lengthOf": "[1], 2",
    "property": '{ a: 1 }, "b"',
    "typeOf": '1, "string"',
    "instanceOf": "{}, Map",
    "sameMembers": "[1], [2]",
    "closeTo": "1, 2, 0.1",
    "approximately": "1, 2, 0.1",
}
# What jest's `expect` gets, and what its matcher gets.
_JEST: Mapping[str, tuple[str, str]] = {
    "toBe": ('"a"', '"b"'),
    "toEqual": ("[1]", "[2]"),
    "toStrictEqual": ("[1]", "[2]"),
    "toBeTruthy": ("false", ""),
    "toBeFalsy": ("true", ""),
    "toBeNull": ("1", ""),
    "toBeUndefined": ("1", ""),
    "toBeDefined": ("undefined", ""),
    "toBeNaN": ("1", ""),
    "toContain": ("[1]", "2"),
    "toContainEqual": ("[1]", "2"),
    "toMatch": ('"a"', "/b/"),
    "toMatchObject": ("{ a: 1 }", "{ a: 2 }"),
    "toHaveLength": ("[1]", "2"),
    "toHaveProperty": ("{ a: 1 }", '"b"'),
    "toBeCloseTo": ("1", "2"),
    "toBeGreaterThan": ("1", "2"),
    "toBeGreaterThanOrEqual": ("1", "2"),
    "toBeLessThan": ("2", "1"),
    "toBeLessThanOrEqual": ("2", "1"),
    "toBeInstanceOf": ("{}", "Map"),
    "toThrow": ("<1>", ""),
    "toThrowError": ("<1>", ""),
}
_REJECTS = "return {called}(Promise.resolve(1)).rejects.toThrow()"
_RESOLVES = "return {called}(Promise.resolve(1)).resolves.toBe(2)"
# What chai's `expect` gets, and the words after it.
_WORDS: Mapping[str, tuple[str, str]] = {
    "be(": ("1", "be(2)"),
    "equal": ("1", "equal(2)"),
    "eql": ("[1]", "eql([2])"),
    "deep.equal": ("[1]", "deep.equal([2])"),
    "true": ("false", "be.true"),
    "false": ("true", "be.false"),
    "null": ("1", "be.null"),
    "undefined": ("1", "be.undefined"),
    "ok": ("false", "be.ok"),
    "a": ("1", 'be.a("string")'),
    "an": ("1", 'be.an("array")'),
    "exist": ("null", "exist"),
    "empty": ("[1]", "be.empty"),
    "throw": ("<1>", "throw()"),
    "include": ("[1]", "include(2)"),
    "contain": ("[1]", "contain(2)"),
    "match": ('"a"', "match(/b/)"),
    "length": ("[1]", "have.length(2)"),
    "lengthOf": ("[1]", "have.lengthOf(2)"),
    "property": ("{ a: 1 }", 'have.property("b")'),
    "members": ("[1]", "have.members([2])"),
    "above": ("1", "be.above(2)"),
    "below": ("2", "be.below(1)"),
    "instanceof": ("{}", "be.instanceof(Map)"),
}
_SHOULD = ("equal", "eql", "deep.equal", "true", "false", "ok", "throw")
_TAPE: Mapping[str, str] = {
    **dict.fromkeys(("equal", "equals", "is", "strictEqual", "strictEquals"), "1, 2"),
    **dict.fromkeys(("notEqual", "not", "isNot", "notStrictEqual"), "1, 1"),
    **dict.fromkeys(("deepEqual", "deepEquals", "same", "looseEqual"), "[1], [2]"),
    **dict.fromkeys(("notDeepEqual", "notSame"), "[1], [1]"),
    **dict.fromkeys(("ok", "true", "assert"), "false"),
    **dict.fromkeys(("notOk", "false", "notok"), "true"),
    **dict.fromkeys(("error", "ifError", "ifErr", "iferror"), 'new Error("a")'),
    "throws": "<1>",
    "doesNotThrow": _NOT_JSON,
    "match": '"a", /b/',
    "doesNotMatch": '"a", /a/',
    "fail": "",
}
_ASSERT = lazy_pattern(r"(?<![\w.])assert(?:\.strict)?(?:\.(?P<method>\w+))?\(")
_TO = lazy_pattern(r"\.(to[A-Z]\w*)\(")
_CHAINED = r"\.{by}\b(?:\.\w+)*?\.?({words})\b"
_KNOWN_WORDS = "|".join(re.escape(word) for word in sorted(_WORDS, key=len, reverse=True))
_BY_TO = lazy_pattern(_CHAINED.format(by="to", words=_KNOWN_WORDS).replace(r"be\()\b", "be\\()"))
_BY_SHOULD = lazy_pattern(_CHAINED.format(by="should", words="|".join(map(re.escape, _SHOULD))))
_USUAL = ("", "equal", "strictEqual", "deepStrictEqual")

Kinds = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Names:
    """The names by which a test file calls its assertions; "" for none. `assert_` is a module of
    node's or of chai's, `functions` are single functions of it by their name in the file, `modules`
    the assertion modules that the file loads. `tape` is the object of a test."""

    assert_: str = ""
    functions: tuple[tuple[str, str], ...] = ()
    modules: tuple[str, ...] = ()
    expect: str = ""
    should: bool = False
    tape: str = ""


def failing(texts: Sequence[str], names: Names) -> Kinds:
    """The kinds of assertions that the texts use, by the names of one file, each with a statement
    that must fail; a few usual ones if none is known."""
    found: dict[str, str] = {}
    ways: tuple[Callable[[str, Names], Iterator[tuple[str, str]]], ...]
    ways = (_by_tape,) if names.tape else (_by_expect, _by_assert, _by_functions, _by_should)
    for way in ways:
        found |= {kind: told for text in texts for kind, told in way(text, names)}
    if not found and any("throw new " in text for text in texts):
        return [_THROW]
    return sorted(found.items())[:_MAX] or _usual(names)


def _usual(names: Names) -> Kinds:
    """Assertions for texts that show none."""
    if names.tape:
        return [(f"t.{one}", _tape(names.tape, one)) for one in ("equal", "ok", "deepEqual")]
    if names.assert_:
        return [_call(names.assert_, method) for method in _USUAL]
    if names.expect:
        return [_matched(names.expect, one) for one in ("toBe", "toEqual")]
    return [_THROW]


def _call(called: str, method: str) -> tuple[str, str]:
    name = f"{called}.{method}" if method else called
    return f"assert.{method}".rstrip("."), f"{name}({_ASSERTS[method]})"


def _by_assert(text: str, names: Names) -> Iterator[tuple[str, str]]:
    for one in _ASSERT.finditer(text) if names.assert_ else ():
        if (method := one["method"] or "") in _ASSERTS:
            yield _call(names.assert_, method)


def _by_functions(text: str, names: Names) -> Iterator[tuple[str, str]]:
    """The functions of an assertion module that a file calls by their own names."""
    for name, method in names.functions:
        if method in _ASSERTS and re.search(rf"(?<![\w.]){re.escape(name)}\(", text):
            yield f"assert.{method}", f"{name}({_ASSERTS[method]})"


def _by_expect(text: str, names: Names) -> Iterator[tuple[str, str]]:
    if not names.expect:
        return
    for method in _TO.findall(text):
        if method in _JEST:
            yield _matched(names.expect, method)
    if re.search(r"\.not\.to[A-Z]", text):
        yield "expect().not", f"{names.expect}(1).not.toBe(1)"
    for word, statement in (("rejects", _REJECTS), ("resolves", _RESOLVES)):
        if re.search(rf"\.{word}\.(?:not\.)?to[A-Z]", text):
            yield f"expect().{word}", statement.format(called=names.expect)
    for word in _BY_TO.findall(text):
        given, words = _WORDS[word]
        yield f"expect().to {word}".rstrip("("), f"{names.expect}({given}).to.{words}"


def _matched(called: str, method: str) -> tuple[str, str]:
    given, wanted = _JEST[method]
    return f"expect().{method}", f"{called}({given}).{method}({wanted})"


def _by_should(text: str, names: Names) -> Iterator[tuple[str, str]]:
    for word in _BY_SHOULD.findall(text) if names.should else ():
        given, words = _WORDS[word]
        yield f"should {word}", f"({given}).should.{words}"


def _by_tape(text: str, names: Names) -> Iterator[tuple[str, str]]:
    for method in re.findall(r"\b(?:t|test|assert|st|tt)\.(\w+)\(", text):
        if method in _TAPE:
            yield f"t.{method}", _tape(names.tape, method)


def _tape(called: str, method: str) -> str:
    arguments = f"{_TAPE[method]}, " if _TAPE[method] else ""
    return f'{called}.{method}({arguments}"{MESSAGE}")'
