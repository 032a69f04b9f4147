"""Splits a POSIX shell command line into words and operators, if it is certain of them. Handles
quotes, escapes, comments and nested substitutions; `shell_parser` has the grammar. Unknown text
raises `UnreadableError`; nothing is guessed."""

from __future__ import annotations

import re

from state_store.values.lazy_dataclass import dataclass

DEEPEST = 40  # no person writes deeper nesting
_OPERATOR = re.compile(
    r"&>>|<<<|<<-|\|&|&&|\|\||;;|;&|&>|>>|>&|<&|>\||<>|<<|[|&;()<>\n]",
)
_BEFORE_TOKEN = re.compile(r"[ \t]*(?:#[^\n]*)?(?:\d+(?=[<>]))?")
_PLAIN = re.compile(r"[^ \t\n|&;()<>'\"\\$`]+")
_PLAIN_IN_QUOTES = re.compile(r'[^"\\$`]+')
_PLAIN_IN_BRACKETS = re.compile(r"[^'\"\\$`(){}]+")
_BACKQUOTED = re.compile(r"`(?:[^`\\]|\\.)*`", re.S)
_ENDS_WORD = frozenset(" \t\n|&;()<>")
_ESCAPED_IN_QUOTES = '$`"\\'


class UnreadableError(ValueError):
    """The text is not a command line that these few rules can read."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word or an operator. A `bare` word has no quoted or escaped part."""

    text: str
    operator: bool = False
    bare: bool = True

    def is_operator(self, *texts: str) -> bool:
        """True if the token is one of these operators."""
        return self.operator and self.text in texts

    def is_reserved(self, *texts: str) -> bool:
        """True if a shell reads the token as one of these reserved words."""
        return not self.operator and self.bare and self.text in texts


def split(command: str) -> tuple[Token, ...]:
    """The tokens of a command line. A substitution stays in its word, unchanged."""
    reader = _Reader(command.replace("\r\n", "\n").replace("\\\n", ""))
    tokens: list[Token] = []
    while token := reader.next_token():
        tokens.append(token)
    return tuple(tokens)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def next_token(self) -> Token | None:
        before = _BEFORE_TOKEN.match(self.text, self.at)
        self.at = before.end() if before else self.at
        if self.at >= len(self.text):
            return None
        if found := _OPERATOR.match(self.text, self.at):
            operator = found[0]
            if operator in ("<<", "<<-") or self.text.startswith(("<(", ">("), self.at):
                raise UnreadableError(operator)
            self.at = found.end()
            return Token(operator, operator=True)
        parts: list[str] = []
        bare = True
        while self.at < len(self.text) and (here := self.text[self.at]) not in _ENDS_WORD:
            bare = bare and here not in "'\"\\"
            parts.append(self._take(_PLAIN) or self._part(here))
        return Token("".join(parts), bare=bare)

    def _part(self, here: str) -> str:
        """The next piece of a word, without its quotes."""
        if here == "'":
            start, end = self.at + 1, self.text.find("'", self.at + 1)
            if end < 0:
                raise UnreadableError("a quote is not closed")
            self.at = end + 1
            return self.text[start:end]
        if here == '"':
            return self._double_quoted()
        if here == "\\":
            return self._escaped()[1]
        return self._substitution()

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Skip and return the text that matches here; "" for none."""
        found = pattern.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return found[0] if found else ""

    def _escaped(self) -> str:
        """A backslash and the next character."""
        pair = self.text[self.at : self.at + 2]
        if len(pair) < 2:
            raise UnreadableError("the text ends too early")
        self.at += 2
        return pair

    def _double_quoted(self) -> str:
        self.at += 1
        parts: list[str] = []
        while (here := self._peek()) != '"':
            if here == "\\":
                pair = self._escaped()
                parts.append(pair[1] if pair[1] in _ESCAPED_IN_QUOTES else pair)
            else:
                parts.append(self._take(_PLAIN_IN_QUOTES) or self._substitution())
        self.at += 1
        return "".join(parts)

    def _peek(self) -> str:
        if self.at >= len(self.text):
            raise UnreadableError("a quote or bracket is not closed")
        return self.text[self.at]

    def _substitution(self) -> str:
        """A substitution, unchanged. A `$` that starts no substitution is an ordinary character."""
        if self.text.startswith("`", self.at):
            if found := self._take(_BACKQUOTED):
                return found
            raise UnreadableError("a quote or bracket is not closed")
        if self.text.startswith(("$'", '$"'), self.at):
            raise UnreadableError("a quote of bash's own kind")
        for opening, closing in (("$(", ")"), ("${", "}")):
            if self.text.startswith(opening, self.at):
                return self._nested(opening, closing)
        self.at += 1
        return "$"

    def _nested(self, opening: str, closing: str) -> str:
        """A balanced substitution, unchanged. Quotes in it may contain brackets."""
        start = self.at
        self.at += len(opening)
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("nested too deep")
        open_now = 1
        while open_now:
            here = self._peek()
            if here in "'\"\\$`":
                self._part(here)
                continue
            if self._take(_PLAIN_IN_BRACKETS):
                continue
            open_now += (here == opening[-1]) - (here == closing)
            self.at += 1
        self.depth -= 1
        return self.text[start : self.at]
