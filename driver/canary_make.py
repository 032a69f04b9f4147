"""The runner that a makefile's target calls, so that a test can be planted for it. Pure.

Plain recipes only: one line of the target calls one runner, without variables of make.
"""

from __future__ import annotations

from collections.abc import Mapping

from driver.canary_call import Call, find_call
from driver.test_command.build_scripts import lines_run
from driver.test_command.invocations import programs
from driver.test_command.shell_lexer import UnreadableError
from driver.test_command.shell_parser import Simple


def make_call(
    command: str | tuple[str, ...], workdir: str, texts: Mapping[str, str]
) -> Call | None:
    """The call in the recipe of the target that the command makes; nothing can be added to it."""
    called = programs(command)
    if len(called) != 1 or Simple(called[0]).name not in ("make", "gmake"):
        return None
    lines = lines_run(command, workdir, lambda path: texts.get(path, ""))
    calls = [call for line, folder in lines if (call := _line_call(line, folder))]
    if len(calls) != 1:
        return None
    return Call(command, calls[0].words, calls[0].folder, extendable=False)


def _line_call(line: str, workdir: str) -> Call | None:
    try:
        return find_call(line, workdir)
    except UnreadableError:
        return None
