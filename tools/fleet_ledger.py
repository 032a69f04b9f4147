"""The ledger of outcomes: a table for people in <state>/ledger, a row per dispatch.

Its public functions and command line; `tools.ledger` reads and writes the rows. Reading creates no
file and changes no environment.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from state_store.documents.errors import ExitCode, InputError, TidegateError

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

VERDICTS = ("OK", "FAILED", "EMPTY", "HUNG")
PHASES = ("build", "verify", "repair")
REFUSED = 1  # the exit code for bad input, as scripts of the source expect it
HARVEST = ".fleet-ledger-harvest.json"


def get_ledger_paths(state_dir: str | Path | None = None) -> tuple[Path, Path, Path]:
    """The paths of the ledger, of the list of harvested transcripts, and of their folder."""
    from tools.ledger.rows import LEDGER

    ledger = _folder(state_dir) / LEDGER
    return ledger, ledger.with_name(HARVEST), ledger.parent


def ensure_ledger_header(state_dir: str | Path | None = None) -> None:
    """Create an empty ledger with a header, if there is none."""
    from tools.ledger import writer as ledger_writer

    ledger_writer.ensure_header(_folder(state_dir))


def append_ledger_line(  # noqa: PLR0913, PLR0917 - the columns, which callers give in order
    timestamp: str,
    agent_type: str,
    model: str,
    duration_sec: float,
    tokens_in: int,
    tokens_out: int = 0,
    verdict: str = "OK",
    phase: str = "-",
    wave: int | str | None = None,
    *,
    state_dir: str | Path | None = None,
    once: bool = False,
) -> bool:
    """Add a row. With `once`, returns False if a row has the same time, phase and wave.

    Raises InputError for invalid values: a time that is not ISO 8601, a `|` or a line break, a
    verdict other than OK, FAILED, EMPTY, HUNG, a number below 0.
    """
    from tools.ledger import writer as ledger_writer
    from tools.ledger.rows import PHASE_CHARACTERS

    _check_time(timestamp)
    if verdict not in VERDICTS:
        raise InputError(f"a verdict must be one of {', '.join(VERDICTS)}, not {verdict!r:.40}")
    seconds: Any = duration_sec
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 <= seconds < float("inf"):
        raise InputError(f"duration_sec must be a number of at least 0, not {seconds!r:.40}")
    counts = [_count("tokens_in", tokens_in), _count("tokens_out", tokens_out)]
    texts = [_text("agent_type", agent_type), _text("model", model)]
    cut = (_text("phase", phase or "-") or "-")[:PHASE_CHARACTERS].strip()
    named = "-" if wave is None else _text("wave", str(wave))
    cells = (timestamp, *texts, f"{float(seconds):g}", *counts, verdict, cut, named)
    return ledger_writer.append_line(_folder(state_dir), cells, once=once)


def parse_ledger_rows(
    state_dir: str | Path | None = None, *, archived: bool = False
) -> list[dict[str, Any]]:
    """The rows of the ledger as dicts by column, with `archived` also those of its archives. `wave`
    is a number if possible, None if missing. Raises InputError."""
    from tools.ledger.rows import LEDGER, all_rows, as_dict, rows_in

    folder = _folder(state_dir)
    found = all_rows(folder) if archived else rows_in(folder / LEDGER)
    return [as_dict(row) for row in found]


def append_wave(
    report_file: str | Path,
    wave: int | str,
    phase: str,
    timestamp: str,
    *,
    state_dir: str | Path | None = None,
) -> tuple[bool, str]:
    """Add a wave's tokens of one phase from its report; returns (success, message).

    Adds nothing if the report's dispatches are already in the ledger (`tokens.ledgered`), or if a
    row has this time, phase and wave.
    """
    from state_store.documents.files import read_json

    try:
        report = read_json(Path(report_file))
        if not isinstance(report, dict):
            raise InputError(f"{report_file} is not the report of a wave")
        report = report.get("wave") or report  # a cycle's report has the wave's in it
        used = report.get("tokens") or {}
        if used.get("ledgered"):
            return True, f"wave {wave} {phase}: its dispatches are in the ledger already"
        tokens = used.get(f"{phase}Out")
        green = bool((report.get("integration") or {}).get("green"))
        verdict = "OK" if green else "FAILED"
        row = (timestamp, "waverun", "haiku", 0, 0, _count(f"tokens.{phase}Out", tokens))
        added = append_ledger_line(
            *row, verdict=verdict, phase=phase, wave=wave, state_dir=state_dir, once=True
        )
    except (TidegateError, AttributeError) as error:
        return False, str(error)
    return True, f"wave {wave} {phase}: {'added' if added else 'is in the ledger already'}"


def rotate(state_dir: str | Path | None = None) -> Path | None:
    """Move the older half of a ledger of more than 200 rows into an archive; returns the archive.

    Totals do not change, because sums read the archives too.
    """
    from tools.ledger import writer as ledger_writer

    return ledger_writer.rotate(_folder(state_dir))


def summary(fmt: str = "text", state_dir: str | Path | None = None) -> str:
    """The sums of all rows, by verdict, phase, model and wave, as text or as "json"."""
    import json

    from tools.ledger.rows import all_rows, as_text, summed

    found = summed(all_rows(_folder(state_dir)))
    return json.dumps(found) if fmt == "json" else as_text(found)


def harvest(root: str | Path | None = None, state_dir: str | Path | None = None) -> int:
    """Add a row for each new agent transcript below `root` (AESOP_TEMP_ROOT); returns their number.
    Raises InputError without a root."""
    from tools.ledger import transcripts

    folder = _folder(state_dir)
    seen, _ = load_harvest_state(folder)
    added = 0
    for name, cells in transcripts.below(transcripts.root(root)):
        if name not in seen:
            append_ledger_line(*cells, state_dir=folder)
            seen.add(name)
            added += 1
    if added:
        save_harvest_state(seen, state_dir=folder)
    return added


def load_harvest_state(state_dir: str | Path | None = None) -> tuple[set[str], str | None]:
    """The names of the harvested transcripts, and the time of the last harvest."""
    from state_store.documents.files import BadFileError, read_json

    _, path, _ = get_ledger_paths(state_dir)
    try:
        found = read_json(path)
    except BadFileError:
        return set(), None
    held = found if isinstance(found, dict) else {}
    names, stamp = held.get("seen"), held.get("timestamp")
    known = {str(name) for name in names} if isinstance(names, list) else set()
    return known, stamp if isinstance(stamp, str) else None


def save_harvest_state(
    seen: set[str], ts: str | None = None, *, state_dir: str | Path | None = None
) -> None:
    """Store the names of the harvested transcripts."""
    from state_store.documents.files import write_json_atomic

    _, path, _ = get_ledger_paths(state_dir)
    write_json_atomic(path, {"seen": sorted(seen), "timestamp": ts or now()})


def now() -> str:
    """The present time in the ledger's format."""
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def main(argv: Sequence[str] | None = None) -> int:
    import argparse

    from tools.program import program

    parser = argparse.ArgumentParser(
        prog="fleet_ledger", description="The ledger of what agents used."
    )
    parser.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    commands = parser.add_subparsers(dest="command", required=True)
    append = commands.add_parser("append", help="add a row")
    for name in ("timestamp", "agent_type", "model", "duration_sec", "tokens_in"):
        append.add_argument(name)
    for name, default in (("tokens_out", "0"), ("verdict", "OK"), ("phase", "-"), ("wave", None)):
        append.add_argument(name, nargs="?", default=default)
    wave = commands.add_parser("append-wave", help="add a wave from its report")
    for name in ("--report-file", "--wave", "--timestamp"):
        wave.add_argument(name, required=True)
    wave.add_argument("--phase", required=True, choices=PHASES)
    commands.add_parser("harvest", help="add a row for each transcript that has none")
    commands.add_parser("rotate", help="archive the older half of a long ledger")
    commands.add_parser("summary", help="print the totals").add_argument(
        "--json", action="store_true"
    )
    return program(parser, _run, argv)


def _run(asked: argparse.Namespace) -> int:
    folder = asked.state_dir
    try:
        if asked.command == "append":
            texts = (asked.timestamp, asked.agent_type, asked.model)
            names = ("duration_sec", "tokens_in", "tokens_out")
            seconds, entered, left = (_parsed(asked, name) for name in names)
            more = (asked.verdict, asked.phase, asked.wave)
            append_ledger_line(*texts, seconds, entered, left, *more, state_dir=folder)
        elif asked.command == "append-wave":
            where = (asked.report_file, asked.wave, asked.phase, asked.timestamp)
            good, message = append_wave(*where, state_dir=folder)
            print(message, file=sys.stdout if good else sys.stderr)
            return ExitCode.DONE if good else REFUSED
        elif asked.command == "harvest":
            print(f"added {harvest(state_dir=folder)} rows")
        elif asked.command == "rotate":
            print(rotate(folder) or "the ledger is short; nothing was moved")
        else:
            print(summary("json" if asked.json else "text", folder))
    except InputError as error:
        print(f"fleet_ledger: {error}", file=sys.stderr)
        return REFUSED
    return ExitCode.DONE


def _parsed(asked: argparse.Namespace, name: str) -> Any:
    """A number from the command line. argparse would exit with 2 for a bad one, not with 1."""
    text = getattr(asked, name)
    try:
        return float(text) if name == "duration_sec" else int(text)
    except ValueError as error:
        raise InputError(f"{name} must be a number, not {text!r:.40}") from error


def _folder(state_dir: str | Path | None) -> Path:
    from tools.settings import load as settings

    return settings.resolve_state_dir() if state_dir is None else Path(state_dir)


def _check_time(timestamp: str) -> datetime:
    import re
    from datetime import datetime

    strict = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?"
    try:
        if re.fullmatch(strict, timestamp):
            return datetime.fromisoformat(timestamp)
    except (TypeError, ValueError):
        pass
    raise InputError(f"a timestamp must be like 2026-01-31T23:59:00Z, not {timestamp!r:.40}")


def _text(name: str, value: str) -> str:
    text = str(value)
    if "|" in text or not text.isprintable():
        raise InputError(f"{name} must be one line without |, not {text!r:.60}")
    return text.strip()


def _count(name: str, value: Any) -> int:
    from tools.budget.ceilings import counted

    count = counted(value)
    if count is None:
        raise InputError(f"{name} must be a whole number of at least 0, not {value!r:.40}")
    return count


if __name__ == "__main__":
    sys.exit(main())
