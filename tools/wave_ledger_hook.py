"""Adds the tokens of another program's wave to the ledger, a row for each phase of its report.

The dispatches of our waves are in the ledger already, as their reports show.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.wave_ledger_hook")

if TYPE_CHECKING:
    import argparse


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 if a row cannot be added."""
    from driver.cli.flags import Parser
    from tools.program import program

    parser = Parser(prog="wave_ledger_hook.py", description="Ledger a wave's report.")
    for name in ("--report-file", "--wave", "--timestamp"):
        parser.add_argument(name, required=True)
    parser.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return program(parser, _run, argv)


def validate_timestamp(timestamp_str: str) -> tuple[bool, str]:
    """(True, "") for a text that may stand in a cell of the ledger, else (False, reason)."""
    if not timestamp_str:
        return False, "the timestamp is empty"
    if "|" in timestamp_str:
        return False, "the timestamp has a pipe in it"
    if len(timestamp_str.splitlines()) > 1 or timestamp_str.endswith(("\n", "\r")):
        return False, "the timestamp has a line break (newline) in it"
    return True, ""


def _run(asked: argparse.Namespace) -> int:
    from driver.terminal.safe_text import log_text
    from state_store.documents.errors import ExitCode, InputError
    from tools import fleet_ledger

    try:
        is_valid, why = validate_timestamp(asked.timestamp)
        if not is_valid:
            raise InputError(why)
        wave = fleet_ledger.require_wave(asked.wave, asked.state_dir)
        phases = _phases(fleet_ledger.read_report(asked.report_file))
    except InputError as error:
        print(f"ERROR: {log_text(str(error))}")
        return fleet_ledger.REFUSED
    is_good = True
    for phase in phases:
        added, message = fleet_ledger.append_wave(
            asked.report_file, wave, phase, asked.timestamp, state_dir=asked.state_dir
        )
        print(f"{'OK' if added else 'ERROR'}: {log_text(message)}")
        is_good = is_good and added
    return ExitCode.DONE if is_good else fleet_ledger.REFUSED


def _phases(report: dict[str, Any]) -> tuple[str, ...]:
    """The phases with tokens in the report; all if its tokens name none of them."""
    from state_store.documents.errors import InputError

    tokens = report.get("tokens") or {}
    if not isinstance(tokens, dict):
        raise InputError("the report's tokens are no object")
    repairs = report.get("repairsUsed")
    repaired = isinstance(repairs, int) and repairs > 0
    ran = {
        "build": "buildOut" in tokens or "build" in tokens,
        "verify": "verifyOut" in tokens,
        "repair": repaired and "repairOut" in tokens,
    }
    found = tuple(phase for phase, has_run in ran.items() if has_run)
    return found or (tuple(ran) if tokens else ())


if __name__ == "__main__":
    sys.exit(main())
