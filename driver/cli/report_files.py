"""Checks the files for report and recording before money is spent, and writes the report.

A program may start without its standard files, and the reader of stdout may close it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from driver.terminal.progress import to_stderr
from driver.terminal.safe_text import json_text
from state_store.documents.errors import CannotRunError, ExitCode, InputError, TidegateError
from state_store.documents.files import write_text_where_named
from state_store.documents.indented_json import indented
from state_store.documents.journal import safe_slug


def keep_standard_files() -> None:
    """Opens missing standard files, so that no other file gets their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number


def check_places(args: argparse.Namespace) -> None:
    """Raises InputError or CannotRunError if `--output` or `--record` is not writable or names the
    file of another flag."""
    taken = {
        f"--{name}": os.path.realpath(value)
        for name in ("config", "tracker", "manifest")
        if (value := getattr(args, name, None))
    }
    for flag, named in (("--output", args.output), ("--record", args.record)):
        if named is None:
            continue
        path, real = Path(named), os.path.realpath(named)
        for other, theirs in taken.items():
            if real == theirs:
                raise InputError(f"{flag} {path} is the file of {other} too: name another file")
        taken[flag] = real
        if path.is_dir() or not path.parent.is_dir():
            why = "is a folder" if path.is_dir() else f"has no folder {path.parent} to lie in"
            raise InputError(f"{flag} {path} {why}: name a file in a folder that exists")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CannotRunError(f"{flag} {path} is not writable: name another file")
    if args.record and Path(args.record).is_file() and Path(args.record).stat().st_size:
        from driver.backends.recording import RecordingWriter  # noqa: PLC0415 - by need

        RecordingWriter(Path(args.record))  # refuses a file that is not a recording


def kept_beside_run(
    report: dict[str, Any], state_dir: Path, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Writes the reports into the run folder, in case stdout is closed too. Returns the short
    document, or the report of a wave that has no folder."""
    try:
        folder = state_dir / "runs" / safe_slug(str(report.get("wave_id")))
        if not folder.is_dir():
            return report
    except (OSError, ValueError):
        return report
    from driver.reports.pages.files import write_reports  # noqa: PLC0415 - loaded when a wave has ended

    return dict(write_reports(report, folder, environ, to_stderr().say))


def write_report(report: Mapping[str, Any], output: str | None) -> int:
    """Writes the report and returns the exit code. A lost report is a failure, but the exit code of
    a failed wave comes first."""
    code = int(report.get("exit_code", 0 if report.get("success", True) else 1))
    text = json_text(indented(report)) + "\n"
    if output:
        try:
            write_text_where_named(Path(output), text)
        except TidegateError as error:
            to_stderr().say(f"--output: {error}")
            _to_stdout(text)
            return code or int(error.exit_code)
        to_stderr().say(f"report written to {output}")
        return code
    lost = _to_stdout(text)
    return code or lost


def _to_stdout(text: str) -> int:
    """Returns 0, or the exit code for a full disk. A closed stdout is no error."""
    if sys.stdout is None:
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        # Keep the interpreter from printing the error again at its end.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            why = error.strerror or error
            to_stderr().say(f"the report cannot be written to stdout: {why}")
            return int(ExitCode.CANNOT_RUN_HERE)
    return 0
