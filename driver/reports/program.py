"""Shows the report of a wave again, writes its page, or compares the last waves.

Only the command line; the reports are in the other modules of this package.
"""

from __future__ import annotations

import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from driver.reports.compare import Compared
    from driver.reports.past import PastWave


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    from driver.cli.flags import Parser

    parser = Parser(prog="report.py", description="Show the report of a wave, or compare waves.")
    add = parser.add_argument
    add("wave", metavar="WAVE", nargs="?", help="a wave's id, or its begin (default: the newest)")
    add("--last", metavar="N", type=_number, help="compare the last N waves")
    add("--html", metavar="FILE", help="write the page to FILE")
    parser.add_shared("--repo", "--state-dir", "--config")
    return parser


def _number(text: str) -> int:
    import argparse

    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of waves: give 1 or more")
    return int(text)


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns the exit code."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from driver.maintenance.reproduce import existing_state, surroundings
    from state_store.documents.errors import InputError

    if args.wave and args.last:
        raise InputError("name one wave, or compare the last N: not both")
    found = surroundings(args.repo, args.state_dir, args.config)
    state = existing_state(found)
    if args.last:
        return _compare(state, args)
    from driver.reports.diffs import diffs
    from driver.reports.overview import overview
    from driver.reports.pages.wave_page import page
    from driver.reports.past import past_wave, reading
    from driver.reports.summary_lines import page_line, summary_lines, table
    from driver.terminal.color import width_of_terminal
    from tools.program import show

    one = past_wave(state, args.wave)
    if args.html:
        with reading(one):
            whole = one.whole()
            changes = diffs(whole, found.settings.environ)
            text = page(overview(whole), one.folder, changes)
        return _write(args, text)
    with reading(one):
        rows = table(one.report, width_of_terminal(sys.stdout))
        lines = (*(row for row, _ in rows), *page_line(one.report), *summary_lines(one.report))
    show(one.report, lines, as_json=args.json)
    return 0


def _compare(state: Path, args: argparse.Namespace) -> int:
    from itertools import islice

    from driver.reports.compare import compare
    from driver.reports.pages.compare_page import compare_lines, compare_page
    from driver.reports.past import past_waves
    from tools.program import show

    waves = islice(_readable(past_waves(state)), args.last)
    found = compare(waves)
    if args.html:
        return _write(args, compare_page(found))
    show(found.to_json(), compare_lines(found), as_json=args.json)
    return 0


def _readable(waves: Iterable[PastWave]) -> Iterator[Compared]:
    """Yields the waves that can be compared, and tells those that cannot."""
    from driver.reports.compare import compared
    from driver.reports.past import reading
    from driver.terminal.progress import to_stderr
    from state_store.documents.errors import InputError

    for one in waves:
        try:
            with reading(one):
                found = compared(one.ended, one.report)
        except InputError as error:
            to_stderr().say(f"left out: {error}")
        else:
            yield found


def _write(args: argparse.Namespace, text: str) -> int:
    from state_store.documents.files import write_text_where_named
    from tools.program import show

    write_text_where_named(Path(args.html), text)
    show({"written": args.html}, [f"page written to {args.html}"], as_json=args.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
