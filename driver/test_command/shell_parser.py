"""The grammar of shell command lines: lists, chains, pipelines and commands, as frozen data. Knows
the grammar that test commands use: simple commands, groups, subshells, `if` and `for`. Other
compound commands raise `UnreadableError`. `exit_code_rules` judges the exit code of a line."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from driver.test_command.shell_lexer import DEEPEST, Token, UnreadableError, split
from state_store.values.lazy_dataclass import dataclass

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_REDIRECTIONS = ("<", ">", ">>", "<<<", ">&", "<&", "&>", "&>>", ">|", "<>")
_ENDS_LIST = ("then", "elif", "else", "fi", "do", "done", "}")
_NOT_READ = ("while", "until", "case", "select", "function", "esac", "[[", "coproc")
RESERVED = (*_ENDS_LIST, *_NOT_READ, "if", "for", "{", "!")


@dataclass(frozen=True, slots=True)
class Simple:
    """A program with its arguments; `assigned` are the `NAME=value` words before it."""

    words: tuple[str, ...]
    assigned: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The program's name without its folder; "" if there are only assignments."""
        return re.split(r"[\\/]", self.words[0])[-1] if self.words else ""


@dataclass(frozen=True, slots=True)
class Group:
    """A list in braces or, as a `subshell`, in parentheses."""

    body: Listing
    subshell: bool


@dataclass(frozen=True, slots=True)
class Branch:
    """An `if`: its conditions and its bodies, with the body of `else`."""

    conditions: tuple[Listing, ...]
    bodies: tuple[Listing, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A `for` over words."""

    body: Listing


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands joined by pipes; `inverted` by a leading exclamation mark."""

    commands: tuple[Simple | Group | Branch | Loop, ...]
    inverted: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """Pipelines joined by `&&` and `||`; `joints[i]` is before `pipelines[i + 1]`."""

    pipelines: tuple[Pipeline, ...]
    joints: tuple[str, ...] = ()
    background: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """Chains that run one after the other, joined by semicolons, line ends or ampersands."""

    chains: tuple[Chain, ...]


@functools.lru_cache(maxsize=1024)
def parse(command: str) -> Listing:
    """The parsed command line, cached. Raises `UnreadableError` for text outside this grammar."""
    parser = _Parser(split(command))
    found = parser.sequence()
    if parser.here is not None:
        raise UnreadableError(parser.here.text)
    return found


def simple_commands(listing: Listing) -> Iterator[Simple]:
    """Every program that a line may start, in the order of the text."""
    pipelines = (pipeline for chain in listing.chains for pipeline in chain.pipelines)
    for command in (command for pipeline in pipelines for command in pipeline.commands):
        if isinstance(command, Simple):
            yield command
        elif isinstance(command, Branch):
            for inner in (*command.conditions, *command.bodies):
                yield from simple_commands(inner)
        else:
            yield from simple_commands(command.body)


class _Parser:
    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    @property
    def here(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def sequence(self) -> Listing:
        chains: list[Chain] = []
        self._skip_line_ends()
        while self.here and not self.here.is_operator(")") and not self._at_reserved(*_ENDS_LIST):
            pipelines, joints = [self._pipeline()], []
            while self._at_operator("&&", "||"):
                joints.append(self._next().text)
                self._skip_line_ends()
                pipelines.append(self._pipeline())
            background = self._at_operator("&")
            chains.append(Chain(tuple(pipelines), tuple(joints), background))
            if not self._at_operator("&", ";", "\n"):
                break
            self.at += 1
            self._skip_line_ends()
        return Listing(tuple(chains))

    def _pipeline(self) -> Pipeline:
        inverted = False
        while self._at_reserved("!"):
            self._next()
            inverted = not inverted
        commands = [self._command()]
        while self._at_operator("|", "|&"):
            self._next()
            self._skip_line_ends()
            commands.append(self._command())
        return Pipeline(tuple(commands), inverted)

    def _command(self) -> Simple | Group | Branch | Loop:
        self.depth += 1
        if self.depth > DEEPEST:
            raise UnreadableError("nested too deep")
        compound = self._compound()
        self.depth -= 1
        if compound is None:
            return self._simple()
        self._skip_redirections()
        return compound

    def _compound(self) -> Group | Branch | Loop | None:
        if self._at_operator("("):
            return self._group(")")
        if self._at_reserved("{"):
            return self._group("}")
        if self._at_reserved("if"):
            return self._branch()
        if self._at_reserved("for"):
            while not self._at_reserved("do"):
                self._next()
            self._next()
            body = self.sequence()
            self._expect("done")
            return Loop(body)
        if self._at_reserved(*_NOT_READ):
            raise UnreadableError("a compound command that is not read")
        return None

    def _group(self, closing: str) -> Group:
        self._next()
        body = self.sequence()
        if not (self.here and self.here.text == closing):
            raise UnreadableError("a group is not closed")
        self._next()
        return Group(body, subshell=closing == ")")

    def _branch(self) -> Branch:
        conditions, bodies = [], []
        while self._at_reserved("if", "elif"):
            self._next()
            conditions.append(self.sequence())
            self._expect("then")
            bodies.append(self.sequence())
        if self._at_reserved("else"):
            self._next()
            bodies.append(self.sequence())
        self._expect("fi")
        return Branch(tuple(conditions), tuple(bodies))

    def _simple(self) -> Simple:
        words: list[str] = []
        assigned: list[str] = []
        while self.here and (not self.here.operator or self._at_operator(*_REDIRECTIONS)):
            if self._at_operator(*_REDIRECTIONS):
                self._skip_redirections()
                continue
            word = self._next()
            target = assigned if not words and _ASSIGNMENT.match(word.text) else words
            target.append(word.text)
        if (not words and not assigned) or self._at_operator("("):
            raise UnreadableError("no command where one should be")
        return Simple(tuple(words), tuple(assigned))

    def _skip_redirections(self) -> None:
        while self._at_operator(*_REDIRECTIONS):
            self._next()
            if self.here is None or self.here.operator:
                raise UnreadableError("a redirection leads nowhere")
            self._next()

    def _skip_line_ends(self) -> None:
        while self._at_operator("\n"):
            self.at += 1

    def _expect(self, word: str) -> None:
        if not self._at_reserved(word):
            raise UnreadableError(f"no {word} where one should be")
        self._next()

    def _next(self) -> Token:
        if self.here is None:
            raise UnreadableError("the text ends too early")
        token = self.here
        self.at += 1
        return token

    def _at_operator(self, *texts: str) -> bool:
        return self.here is not None and self.here.is_operator(*texts)

    def _at_reserved(self, *texts: str) -> bool:
        return self.here is not None and self.here.is_reserved(*texts)
