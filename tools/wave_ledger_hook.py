"""Adds the tokens of another program's wave to the ledger, a row for each phase of its report.

The dispatches of our waves are in the ledger already, as their reports show.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

if TYPE_CHECKING:
    import argparse


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 if a row cannot be added."""
    import argparse

    from tools.program import program

    parser = argparse.ArgumentParser(prog="wave_ledger_hook", description="Ledger a wave's report.")
    for name in ("--report-file", "--wave", "--timestamp"):
        parser.add_argument(name, required=True)
    parser.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return program(parser, _run, argv)


def _run(asked: argparse.Namespace) -> int:
    from state_store.documents.files import BadFileError, read_json
    from tools import fleet_ledger

    try:
        report = read_json(Path(asked.report_file))
    except BadFileError:
        report = {}  # the first phase reports what is wrong with it
    repairs = report.get("repairsUsed") if isinstance(report, dict) else 0
    repaired = isinstance(repairs, int) and repairs > 0
    for phase in ("build", "verify", "repair") if repaired else ("build", "verify"):
        good, message = fleet_ledger.append_wave(
            asked.report_file, asked.wave, phase, asked.timestamp, state_dir=asked.state_dir
        )
        print(message, file=sys.stdout if good else sys.stderr)
        if not good:
            return fleet_ledger.REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
