"""The parser of all command lines, and their shared flags. Loads little, so that --help is quick.

Flags cannot be abbreviated. A word or flag that is nearly right is guessed.
"""

from __future__ import annotations

import argparse
import os
import sys

from driver.terminal.invocation import ALWAYS, AUTO, NEVER, current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, NoReturn

_SHARED: dict[str, dict[str, Any]] = {
    "--repo": {"metavar": "DIR", "help": "the repository (default: of the current folder)"},
    "--config": {"metavar": "FILE", "help": "configuration to use instead of the project's"},
    "--state-dir": {"metavar": "DIR", "help": "the folder of the state (default: ./state)"},
}
JSON = "--json"
_REQUIRED = "the following arguments are required: "
_Subcommands = argparse._SubParsersAction
_OUTPUT: dict[str, Any] = {"json": False, "color": AUTO, "quiet": False, "verbose": False}


class Parser(argparse.ArgumentParser):
    """Names the command that was typed in its usage. Reports a wrong command line in one sentence
    like every other error, or as a JSON document. Flags cannot be abbreviated: `--exec` is no
    `--execute`, and a new flag changes no old command line.

    `prog` of a program is the name of its file.
    """

    def __init__(self, **options: Any) -> None:
        name = options.get("prog", "")
        if name.endswith(".py"):
            call = current()
            call.topic = call.topic if call.command else name.removesuffix(".py")
            options["prog"] = _typed_as(name)
        super().__init__(**{"allow_abbrev": False, **options})
        self._add_output()

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Parses the whole command line, and notes the flags for output."""
        words = list(sys.argv[1:] if args is None else args)
        call = current()
        if call.shows_parser:
            raise ParserSeen(self)
        call.json = JSON in words[: words.index("--") if "--" in words else None]
        found: argparse.Namespace
        found, unknown = self.parse_known_args(words, namespace)
        if unknown:
            flags = [flag for parser in self.named(words) for flag in parser._option_string_actions]
            guesses = "".join(guess(word.partition("=")[0], flags) for word in unknown)
            self.error(f"unrecognized arguments: {' '.join(unknown)}{guesses}")
        subcommands = (one.dest for one in self._actions if isinstance(one, _Subcommands))
        call.kind = "/".join(str(getattr(found, name) or "") for name in subcommands)
        for name, default in _OUTPUT.items():
            setattr(found, name, getattr(found, name, default))
            setattr(call, name, getattr(found, name))
        return found

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The value of a flag. Older versions of Python make an empty list of `--flag=--`."""
        if arg_strings == ["--"] and action.option_strings and action.nargs is None:
            value = self._get_value(action, "--")
            self._check_value(action, value)
            return value
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """Ends the program with exit code 2."""
        from driver.terminal.safe_text import safe_line

        if message.startswith(_REQUIRED):
            for action in self._actions:
                if action.choices and not (action.option_strings or action.metavar):
                    choices = "|".join(map(str, action.choices))
                    message = message.replace(action.dest, f"{action.dest} ({choices})")
        sentence = f"{safe_line(message)}; {self.prog} --help lists the flags"
        if current().json:
            import json

            from driver.terminal.invocation import error_document

            self._print_message(json.dumps(error_document(sentence, 2)) + "\n", sys.stdout)
        self.exit(2, f"tidegate: {sentence}\n")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the program, even if the reader of the help has closed stdout."""
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            from tools.program import silence_stdout

            silence_stdout()
        super().exit(status, message)

    def format_help(self) -> str:
        """The help; of a word of `tidegate` with its examples."""
        text = super().format_help()
        if not current().command:
            return text
        from driver.cli.words import examples

        shown = "".join(f"\n    {one}" for one in examples(self.prog, current().topic))
        return f"{text}\nexamples:{shown}\n" if shown else text

    def add_shared(self, *flags: str) -> None:
        """Adds flags with one meaning in all programs, such as `--state-dir`."""
        for flag in flags:
            self.add_argument(flag, **_SHARED[flag])

    def _add_output(self) -> None:
        # Without defaults, because those of a subcommand would hide flags before its name.
        add = self.add_argument_group("output").add_argument
        unset: dict[str, Any] = {"default": argparse.SUPPRESS}
        add(JSON, action="store_true", help="print one JSON document, also for errors", **unset)
        colors = (AUTO, ALWAYS, NEVER)
        add("--color", choices=colors, help="(default: auto, with NO_COLOR, FORCE_COLOR)", **unset)
        add("-q", "--quiet", action="store_true", help="results and errors only", **unset)
        add("-v", "--verbose", action="store_true", help="also tell where an error arose", **unset)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        known = [str(one) for one in action.choices]
        named = ", ".join(known)
        flag = f"--{value}"
        near = f"; did you mean {flag}?" if flag in self._option_string_actions else ""
        near = near or guess(str(value), known)
        why = f"invalid choice: {value!r}{near} (choose from {named})"
        raise argparse.ArgumentError(action, why)

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        """Says also which value is missing."""
        try:
            return super()._match_argument(action, arg_strings_pattern)
        except argparse.ArgumentError as error:
            if isinstance(action.metavar, str) and action.option_strings:
                error.message += f": {action.metavar}"
            raise

    def named(self, words: Sequence[str]) -> Iterator[Parser]:
        """This parser, and those of the named subcommands."""
        yield self
        for action in self._actions:
            if isinstance(action, _Subcommands):
                for name, below in action.choices.items():
                    if name in words:
                        yield from below.named(words)


class ParserSeen(Exception):
    """Brings the parser of a program to a caller that only looks at it."""

    def __init__(self, parser: Parser) -> None:
        self.parser = parser


def guess(word: str, known: Iterable[str]) -> str:
    """`; did you mean ...?`, or "" if no known word is similar."""
    from difflib import get_close_matches

    # Without the dashes, which make all flags look alike.
    names = {name.lstrip("-"): name for name in known}
    near = get_close_matches(word.lstrip("-"), list(names), n=1)
    return f"; did you mean {names[near[0]]}?" if near else ""


def _typed_as(file: str) -> str:
    """The command that was typed to start a program, as far as it is known."""
    if current().command:
        return current().command
    if os.path.basename(sys.argv[0]) != file:
        return file
    python = os.path.basename(sys.executable) or "python3"
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return f"{python} -m {spec.name}" if spec is not None else f"{python} {sys.argv[0]}"


def add_common(parser: Parser) -> None:
    """Adds the flags of both engine programs, except those that select work."""
    add = parser.add_argument
    parser.add_shared("--repo", "--config", "--state-dir")
    add("--driver", metavar="NAME", help="a backend of docs/drivers.md (default: configured)")
    add("--target", metavar="BRANCH", help="start from and ship to it (default: checked out)")
    add("--max-workers", metavar="N", type=int, help="agents that work in parallel (default: 8)")
    add("--output", metavar="FILE", help="write the report to FILE, not to stdout")
    add("--record", metavar="FILE", help="record every agent's answer for the replay backend")
    add("--dry-run", action="store_true", help="only print the plan; overrides other flags")
    add(
        "--demo",
        metavar="DIR",
        nargs="?",
        const="",
        help="make a small repository and run a recorded wave on it; needs no agent and no key",
    )
