"""The words and operators of a POSIX shell command line, as far as they can be read for certain.

Owns quoting, escapes, comments and nested substitutions. What a command line means is the business
of `driver.shell_syntax`. What is not understood raises `UnreadableError`; nothing is guessed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPERATORS = (
    *("&>>", "<<<", "<<-", "|&", "&&", "||", ";;", ";&", "&>", ">>", ">&", "<&", ">|", "<>", "<<"),
    *("|", "&", ";", "(", ")", "<", ">", "\n"),
)
_BLANK = " \t"
DEEPEST = 40  # what is nested deeper is not read: no person wrote it
_ENDS_WORD = _BLANK + "\n|&;()<>"
_ESCAPED_IN_QUOTES = '$`"\\'
_DIGITS_BEFORE_REDIRECTION = re.compile(r"\d+(?=[<>])")


class UnreadableError(ValueError):
    """The text is no command line that these few rules can read."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word (`bare` when no part of it was quoted or escaped) or one operator."""

    text: str
    operator: bool = False
    bare: bool = True

    def is_operator(self, *texts: str) -> bool:
        """Whether this is one of these operators."""
        return self.operator and self.text in texts

    def is_reserved(self, *texts: str) -> bool:
        """Whether this is one of these words, written so that a shell takes it as reserved."""
        return not self.operator and self.bare and self.text in texts


def split(command: str) -> tuple[Token, ...]:
    """The tokens of a command line; a substitution stays in its word as it was written."""
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
        self._skip_blanks()
        if self.at >= len(self.text):
            return None
        if digits := _DIGITS_BEFORE_REDIRECTION.match(self.text, self.at):
            self.at = digits.end()
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at):
                return self._operator(operator)
        return self._word()

    def _operator(self, operator: str) -> Token:
        if operator in ("<<", "<<-") or self.text.startswith(("<(", ">("), self.at):
            raise UnreadableError(operator)
        self.at += len(operator)
        return Token(operator, operator=True)

    def _skip_blanks(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _BLANK:
            self.at += 1
        if self.text.startswith("#", self.at):
            end = self.text.find("\n", self.at)
            self.at = len(self.text) if end < 0 else end

    def _word(self) -> Token:
        parts: list[str] = []
        bare = True
        while self.at < len(self.text) and self.text[self.at] not in _ENDS_WORD:
            here = self.text[self.at]
            bare = bare and here not in "'\"\\"
            parts.append(self._part(here))
        return Token("".join(parts), bare=bare)

    def _part(self, here: str) -> str:
        if here == "'":
            return self._until_quote()
        if here == '"':
            return self._double_quoted()
        if here == "\\":
            return self._take(2)[1:]
        if here in "$`":
            return self._substitution()
        return self._take(1)

    def _take(self, count: int) -> str:
        if self.at + count > len(self.text):
            raise UnreadableError("the text ends too early")
        start, self.at = self.at, self.at + count
        return self.text[start : self.at]

    def _until_quote(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise UnreadableError("a quote is not closed")
        inside, self.at = self.text[self.at + 1 : end], end + 1
        return inside

    def _double_quoted(self) -> str:
        self._take(1)
        parts: list[str] = []
        while (here := self._peek()) != '"':
            if here == "\\":
                pair = self._take(2)
                parts.append(pair[1] if pair[1] in _ESCAPED_IN_QUOTES else pair)
            else:
                parts.append(self._substitution() if here in "$`" else self._take(1))
        self._take(1)
        return "".join(parts)

    def _peek(self) -> str:
        if self.at >= len(self.text):
            raise UnreadableError("a quote or bracket is not closed")
        return self.text[self.at]

    def _substitution(self) -> str:
        if self.text.startswith("`", self.at):
            return self._backquoted()
        if self.text.startswith(("$'", '$"'), self.at):
            raise UnreadableError("a quote of bash's own kind")
        for opening, closing in (("$(", ")"), ("${", "}")):
            if self.text.startswith(opening, self.at):
                return self._nested(opening, closing)
        return self._take(1)

    def _backquoted(self) -> str:
        start = self.at
        self._take(1)
        while self._peek() != "`":
            self._take(2 if self._peek() == "\\" else 1)
        self._take(1)
        return self.text[start : self.at]

    def _nested(self, opening: str, closing: str) -> str:
        """A balanced substitution, as written; quotes inside it may hold brackets."""
        start = self.at
        self._take(len(opening))
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("nested too deep")
        open_now = 1
        while open_now:
            here = self._peek()
            if here in "'\"\\$`":
                self._part(here)
                continue
            open_now += (here == opening[-1]) - (here == closing)
            self._take(1)
        self.depth -= 1
        return self.text[start : self.at]
