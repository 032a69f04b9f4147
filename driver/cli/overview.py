"""The help of the command `tidegate`: its words by group, and the first steps."""

from __future__ import annotations

import sys

from driver.cli.words import groups
from driver.terminal.color import BOLD, CYAN, paint
from driver.terminal.invocation import ALWAYS, AUTO, NEVER, current, error_document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_FIRST_STEPS = (
    ("run --execute --demo", "see it work; needs no agent and no key"),
    ("init", "set up your repository"),
    ("add 'Round prices' --owns shop/price.py --test 'pytest -q'", "add work"),
    ("plan", "look at what would happen"),
    ("run --execute", "run it"),
    ("status --watch", "watch it, in another terminal"),
)
_WIDTH = 14


def main(argv: Sequence[str]) -> int:
    """The word `help`. Returns exit code 2 for a word that is not there."""
    color, rest = _color_and_rest(argv)
    if rest:
        return unknown(rest[0])
    current().color = color
    if current().json:
        import json

        text = json.dumps({"schema": "tidegate/help/1", "words": groups()})
    else:
        text = "\n".join(_lines())
    return _printed(text)


def unknown(word: str) -> int:
    """Tells that there is no such word, and which one is near. Returns exit code 2."""
    from driver.cli.flags import guess
    from driver.terminal.safe_text import safe_line

    known = [name for words in groups().values() for name in words]
    near = guess(word, [*known, "help"])
    why = f"there is no {safe_line(repr(word))}{near or '; there is ' + ', '.join(known)}"
    if current().json:
        import json

        _printed(json.dumps(error_document(why, 2)))
    sys.stderr.write(f"tidegate: {why}\n")
    return 2


def _lines() -> Iterator[str]:
    program = current().without_word
    yield f"usage: {program} WORD ..."
    for group, words in groups().items():
        yield ""
        yield paint(f"{group}:", BOLD)
        for word, purpose in words.items():
            yield f"  {paint(word, CYAN)}{' ' * max(1, _WIDTH - len(word))}{purpose}"
    yield ""
    yield paint("first steps:", BOLD)
    yield from (f"    {program} {command}\n        {why}" for command, why in _FIRST_STEPS)
    yield ""
    yield f"{program} help WORD: its flags and examples"
    yield "every word takes --json, --color auto|always|never, -q and -v"


def _color_and_rest(argv: Sequence[str]) -> tuple[str, list[str]]:
    """The value of `--color`, and the words that are no flags. Needs no argparse."""
    words = " ".join(argv).replace("--color=", "--color ").split()
    at = words.index("--color") if "--color" in words else len(words)
    asked = "".join(words[at + 1 : at + 2])
    rest = [word for word in (*words[:at], *words[at + 2 :]) if not word.startswith("-")]
    return asked if asked in (ALWAYS, NEVER) else AUTO, rest


def _printed(text: str) -> int:
    try:
        print(text)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        from tools.program import READER_GONE, silence_stdout

        silence_stdout()
        return READER_GONE
    return 0
