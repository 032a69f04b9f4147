"""Names the programs of Tidegate in the commands that messages propose."""

from __future__ import annotations

import sys
from pathlib import Path

from driver.terminal.invocation import current
from driver.terminal.safe_text import typed
from state_store.documents.interpreter import interpreter_name


def program_command(word: str, file: Path) -> str:
    """The command of a word, from any folder: `tidegate halt` where that name was typed, with its
    folder if PATH has no such name; else the interpreter with the program's `file`."""
    if not current().command.startswith("tidegate "):
        return typed(interpreter_name(), file)
    import shutil  # noqa: PLC0415 - only an installed copy asks

    script = Path(sys.argv[0])
    hidden = script.stem == "tidegate" and shutil.which("tidegate") is None
    return f"{typed(script.absolute()) if hidden else 'tidegate'} {word}"
