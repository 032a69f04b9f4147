"""The word `completion`: prints the completions of a shell, and answers their questions.

A shell asks `tidegate completion words -- WORD ...` for the candidates of the last word. Flags come
from the parser of the word, so none is forgotten.
"""

from __future__ import annotations

import sys

from driver.cli.words import groups, is_there, program_of
from driver.terminal.invocation import typed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from driver.cli.flags import Parser

_ASK = "completion words --"
_SHELLS = {
    "bash": f"""\
_tidegate() {{
    local line
    COMPREPLY=()
    while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
        "${{COMP_WORDS[0]}}" {_ASK} "${{COMP_WORDS[@]:1:COMP_CWORD}}" 2>/dev/null)
    if [ "${{#COMPREPLY[@]}}" -eq 0 ]; then compopt -o default 2>/dev/null; fi
}}
complete -F _tidegate tidegate
""",
    "zsh": f"""\
#compdef tidegate
_tidegate() {{
    local -a found
    found=("${{(@f)$("${{words[1]}}" {_ASK} "${{(@)words[2,CURRENT]}}" 2>/dev/null)}}")
    if [ -n "${{found[1]}}" ]; then compadd -- "${{found[@]}}"; else _files; fi
}}
if [ "${{funcstack[1]}}" = _tidegate ]; then _tidegate "$@"; else compdef _tidegate tidegate; fi
""",
    "fish": f"""\
function __tidegate_words
    set -l typed (commandline -opc) (commandline -ct)
    command $typed[1] {_ASK} $typed[2..-1] 2>/dev/null
end
complete -c tidegate -a '(__tidegate_words)'
""",
}


def main(argv: Sequence[str] | None = None) -> int:
    """The program."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:2] == ["words", "--"]:
        print("\n".join(candidates(words[2:])))
        return 0
    if len(words) != 1 or words[0] not in _SHELLS:
        return _of_parser(words)
    print(_SHELLS[words[0]], end="")
    return 0


def _of_parser(words: Sequence[str]) -> int:
    """Parses an unusual command line, such as `--help`; argparse costs more than the answer."""
    from driver.cli.flags import Parser
    from tools.program import program, show

    parser = Parser(prog="completion.py", description="Print the completions of a shell.")
    parser.add_argument("shell", choices=tuple(_SHELLS))

    def run(asked: argparse.Namespace) -> int:
        text = _SHELLS[asked.shell]
        show({"shell": asked.shell, "script": text}, text.splitlines(), as_json=asked.json)
        return 0

    return program(parser, run, words)


def candidates(words: Sequence[str]) -> list[str]:
    """The words that may stand in place of the last one."""
    *before, begun = words or [""]
    if not before:
        known = [word for names in groups().values() for word in names]
        return [word for word in [*known, "help"] if word.startswith(begun)]
    if before == ["help"]:
        return candidates([begun])
    if before[0] == "completion":
        return [shell for shell in _SHELLS if shell.startswith(begun)]
    if not is_there(before[0]):
        return []
    return [word for word in _of_program(before) if word.startswith(begun)]


def _of_program(before: Sequence[str]) -> list[str]:
    """The flags and choices of a word, and of a subcommand that is named already."""
    parser = _parser_of(before[0])
    if parser is None:
        return []
    found: list[str] = []
    innermost = [*parser.named(before[1:])][-1]
    for action in innermost._actions:
        choices = [str(one) for one in action.choices or ()]
        if choices and before[-1] in action.option_strings:
            return choices
        found += [flag for flag in action.option_strings if flag.startswith("--")]
        found += [] if action.option_strings else choices
    return found


def _parser_of(word: str) -> Parser | None:
    """The parser of a word, as its own program makes it. The program does nothing else."""
    from importlib import import_module

    from driver.cli.flags import ParserSeen

    with typed(f"tidegate {word}", word) as call:
        call.shows_parser = True
        try:
            module, function = program_of(word)
            getattr(import_module(module), function)(["--help"])
        except ParserSeen as seen:
            return seen.parser
    return None
