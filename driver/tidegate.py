"""The command `tidegate`: runs the program of the first word with the other arguments.

`driver.cli.words` has the table of words. Only the module of the word that was typed is imported.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("driver.tidegate")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_OUTPUT_FLAGS = frozenset({"--json", "-q", "--quiet", "-v", "--verbose"})


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit code of the one it hands over to."""
    words = _flags_last(list(sys.argv[1:] if argv is None else argv))
    first = words[0] if words else "help"
    if first in ("-h", "--help", "-V", "--version"):
        words = ["help" if "h" in first else "version", *words[1:]]
    elif first.startswith("-"):
        # Flags alone are those of `run`.
        words = ["help" if _is_output(words) else "run", *words]
    elif not words:
        words = ["help"]
    try:
        return _run(words[0], words[1:])
    except KeyboardInterrupt:
        return 130


def _flags_last(words: list[str]) -> list[str]:
    """Moves flags for output behind the word: `--json status` becomes `status --json`."""
    at = 0
    while at < len(words) and _is_output(words[at : at + 1]):
        at += 2 if words[at] == "--color" else 1
    return [*words[at : at + 1], *words[:at], *words[at + 1 :]]


def _is_output(words: Sequence[str]) -> bool:
    """True if the first word is a flag for output."""
    return words[0] in _OUTPUT_FLAGS or words[0].partition("=")[0] == "--color"


def _typed_name() -> str:
    """The command as it was typed: `tidegate`, `python -m driver`, or the file."""
    from os.path import basename, dirname

    python, file = basename(sys.executable) or "python3", sys.argv[0]
    if basename(file) == "tidegate.py":
        return f"{python} {file}"
    package = basename(dirname(file))
    is_module = basename(file) == "__main__.py" and package in ("driver", "tidegate")
    return f"{python} -m {package}" if is_module else "tidegate"


def _run(word: str, rest: list[str]) -> int:
    from driver.cli.words import is_there, program_of
    from driver.terminal.invocation import typed

    if word == "help" and rest[:1] and is_there(rest[0]):
        word, rest = rest[0], ["--help"]
    with typed(f"{_typed_name()} {word}", word) as call:
        call.json = "--json" in rest
        if word == "help" or not is_there(word):
            from driver.cli import overview

            return overview.main(rest) if word == "help" else overview.unknown(word)
        from importlib import import_module

        module, function = program_of(word)
        code: int = getattr(import_module(module), function)(rest)
    return code


if __name__ == "__main__":
    sys.exit(main())
