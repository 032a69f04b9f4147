"""Runs a program: parses its flags, reports errors in one sentence, returns the exit code."""

from __future__ import annotations

if not __package__ and __name__ == "__main__":
    import sys

    sys.stderr.write("tools/program.py is no program; tidegate help lists the programs\n")
    raise SystemExit(2)

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from driver.terminal.invocation import current, error_document, schema
from driver.terminal.redacting_stream import hiding_secrets
from driver.terminal.safe_text import json_text, log_text
from state_store.documents.errors import CannotRunError, ExitCode, InputError, TidegateError
from state_store.documents.strict_json import parse_foreign

if TYPE_CHECKING:
    import argparse

T = TypeVar("T")
READER_GONE = 1
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP)


def program(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    argv: Sequence[str] | None = None,
) -> int:
    """Parses the command line and runs the program; returns its exit code. With `--json` stdout
    gets one document in any case: the program's own, or its lines, or its error."""

    def work() -> int:
        asked = parser.parse_args(argv)
        return _in_one_document(lambda: run(asked)) if asked.json else run(asked)

    return exit_code(current().program, work)


def exit_code(name: str, work: Callable[[], int]) -> int:
    """The exit code of `work`. A TidegateError becomes one sentence on stderr after the name, and
    a document on stdout if the program was asked for JSON. Nothing that is printed shows the
    secrets of the environment, or those that a setting adds."""
    with hiding_secrets(os.environ):
        return _exit_code(name, work)


def _exit_code(name: str, work: Callable[[], int]) -> int:
    try:
        try:
            return flushed(work)
        except FileNotFoundError:
            require_current_folder()  # the likely cause, which Python's error does not name
            raise
        except PermissionError as error:
            why = "may not be used by this user: allow it, or be its owner"
            raise CannotRunError(f"{error.filename} {why}") from error
        except OSError as error:
            if error.errno in _NO_ROOM and error.filename is None:  # of stdout: it has no name
                silence_stdout()
                why = f"the output cannot be written: {error.strerror}"
                raise CannotRunError(why) from error
            if error.errno not in _NO_PATH:
                raise
            raise InputError(f"{error.filename} is no usable path: {error.strerror}") from error
    except TidegateError as error:
        if current().verbose:
            import traceback

            traceback.print_exception(error)
        sys.stderr.write(f"{name}: {log_text(str(error))}\n")
        if current().json:
            document = error_document(str(error), error.exit_code)
            flushed(lambda: _print_document(document))
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def flushed(work: Callable[[], int]) -> int:
    """The exit code of `work`, or 1 if the reader of stdout, such as `head`, closed it early."""
    try:
        try:
            return work()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
        return READER_GONE


def silence_stdout() -> None:
    """Keeps the interpreter from printing an error about a closed stdout at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def require_current_folder() -> None:
    """Raise CannotRunError if the current folder was removed, because relative paths need it."""
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise CannotRunError("the current folder was removed; change to another folder") from error


def _in_one_document(work: Callable[[], int]) -> int:
    """Runs a program that was asked for JSON, and prints what it printed as one document."""
    with redirect_stdout(io.StringIO()) as printed:
        try:
            code = work()
        except SystemExit as ended:
            code = int(ended.code or 0)
    text = printed.getvalue()
    try:
        document = parse_foreign(text)
    except ValueError:
        document = None
    if not isinstance(document, dict | list):
        document = {"lines": text.splitlines(), "exit_code": code}
    _print_document(_with_schema(document))
    return code


def _print_document(document: Any) -> int:
    print(json_text(json.dumps(document)))
    return ExitCode.DONE


def _with_schema(document: Any) -> Any:
    """The document with the name of its schema. A list becomes a document of its own only for
    `tidegate`: the program files print the lists that their callers know."""
    if isinstance(document, dict):
        return {"schema": schema(), **document}
    return {"schema": schema(), "entries": document} if current().command else document


def show(document: Any, lines: Iterable[object], *, as_json: bool) -> None:
    """Prints one JSON document, or the lines."""
    if as_json:
        _print_document(document)
    else:
        show_each(lines, as_json=False)


def show_each(steps: Iterable[T], *, as_json: bool) -> list[T]:
    """Prints each step as it comes, unless a JSON document follows. Returns all steps."""
    done = []
    for step in steps:
        done.append(step)
        if not as_json:
            print(log_text(str(step)), flush=True)
    return done
