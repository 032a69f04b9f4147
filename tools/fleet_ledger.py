"""The ledger of outcomes: a table for people in <state>/ledger, a row per dispatch.

Its public functions and command line; `tools.ledger` reads and writes the rows. Reading creates no
file and changes no environment.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.fleet_ledger")

from state_store.documents.errors import ExitCode, InputError, InvalidValue, TidegateError

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

VERDICTS = ("OK", "FAILED", "EMPTY", "HUNG")
REFUSED = 1  # the exit code for bad input, as scripts of the source expect it


def get_ledger_paths(state_dir: str | Path | None = None) -> tuple[Path, Path, Path]:
    """The paths of the ledger, of the list of harvested transcripts, and of their folder."""
    from tools.ledger.harvest import HARVEST
    from tools.ledger.rows import LEDGER

    ledger = _folder(state_dir) / LEDGER
    return ledger, ledger.with_name(HARVEST), ledger.parent


def ensure_ledger_header(state_dir: str | Path | None = None) -> None:
    """Create an empty ledger with a header, if there is none."""
    from tools.ledger import writer as ledger_writer

    ledger_writer.ensure_header(_folder(state_dir))


def append_ledger_line(  # noqa: PLR0913, PLR0917 - the columns, which callers give in order
    iso_ts: str,
    agent_type: str,
    model: str,
    duration_sec: float | str | None,
    tokens_in: int | str | None,
    tokens_out: int | str | None,
    verdict: str = "OK",
    phase: str | None = None,
    wave: int | str | None = None,
    *,
    state_dir: str | Path | None = None,
    once: bool = False,
) -> bool:
    """Add a row. With `once`, returns False if a row has the same time, phase and wave.

    A figure of None or "" is missing: seconds are then 0, and tokens unknown. Raises ValueError for
    invalid values: a time that is not ISO 8601, a `|` or a line break, a verdict other than OK,
    FAILED, EMPTY, HUNG, a number below 0.
    """
    from tools.ledger import writer as ledger_writer
    from tools.ledger.rows import PHASE_CHARACTERS

    _check_time(iso_ts)
    if verdict not in VERDICTS:
        raise InvalidValue(f"a verdict must be one of {', '.join(VERDICTS)}, not {verdict!r:.40}")
    counts = [
        "-" if value in (None, "") else _count(name, value)
        for name, value in (("tokens_in", tokens_in), ("tokens_out", tokens_out))
    ]
    texts = [_text("agent_type", agent_type), _text("model", model)]
    cut = _text("phase", phase or "")[:PHASE_CHARACTERS].strip()
    named = "" if wave is None else _text("wave", str(wave))
    cells = (iso_ts, *texts, _seconds(duration_sec), *counts, verdict, cut, named)
    return ledger_writer.append_line(_folder(state_dir), cells, once=once)


def parse_ledger_rows(
    state_dir: str | Path | None = None, *, archived: bool = False
) -> list[dict[str, Any]]:
    """The rows of the ledger as dicts by column (the time is `iso_ts`), with `archived` also those
    of its archives. `wave` is a number if possible. None is a missing wave or phase. Raises
    InputError."""
    from tools.ledger.rows import LEDGER, all_rows, as_dict, rows_in

    folder = _folder(state_dir)
    found = all_rows(folder) if archived else rows_in(folder / LEDGER)
    return [as_dict(row) for row in found]


def append_wave(
    report_file: str | Path,
    wave: int | str | None,
    phase: str,
    timestamp: str,
    *,
    state_dir: str | Path | None = None,
) -> tuple[bool, str]:
    """Add a wave's tokens of one phase from its report; returns (success, message).

    A phase without tokens in the report did not run, and counts as 0. Adds nothing if the report's
    dispatches are already in the ledger (`tokens.ledgered`), or if a row has this time, phase and
    wave.
    """
    try:
        report = read_report(report_file)
        used = report.get("tokens") or {}
        if used.get("ledgered"):
            return True, f"wave {wave} {phase} already exists: its dispatches are in the ledger"
        tokens = used.get(f"{phase}Out", used.get(phase, 0))
        green = bool((report.get("integration") or {}).get("green"))
        verdict = "OK" if green else "FAILED"
        row = (timestamp, "waverun", "haiku", 0, 0, _count(f"tokens.{phase}Out", tokens))
        added = append_ledger_line(
            *row, verdict=verdict, phase=phase, wave=wave, state_dir=state_dir, once=True
        )
    except (TidegateError, AttributeError) as error:
        return False, str(error)
    return True, f"{'Appended' if added else 'already exists:'} wave {wave} {phase}"


def read_report(report_file: str | Path) -> dict[str, Any]:
    """The report of a wave, also if it is in a cycle's report. Raises InputError."""
    from state_store.documents.files import read_json

    report = read_json(Path(report_file))
    report = report.get("wave") or report if isinstance(report, dict) else None
    if not isinstance(report, dict):
        raise InputError(f"{report_file} is not the report of a wave")
    return report


def require_wave(wave: str, state_dir: str | Path | None = None) -> str:
    """`wave` if it is a number, or the id of a wave of the state folder. Raises InputError."""
    from state_store.documents.journal import stored_slug

    text = wave.strip()
    if text.isdecimal() or (text and (_folder(state_dir) / "runs" / stored_slug(text)).is_dir()):
        return text
    raise InputError(f"a wave must be a number or the id of a wave in this folder, not {wave!r}")


def rotate(state_dir: str | Path | None = None) -> Path | None:
    """Move the older half of a ledger of more than 200 rows into an archive; prints and returns the
    archive. Totals do not change, because sums read the archives too."""
    from tools.ledger import writer as ledger_writer

    archive = ledger_writer.rotate(_folder(state_dir))
    print(f"Rotated into {archive}" if archive else "no rotation needed: the ledger is short")
    return archive


def summary(output_format: str = "text", state_dir: str | Path | None = None) -> str:
    """Print and return the sums of all rows, by verdict, phase, model and wave, as text or as
    "json"."""
    import json

    from driver.terminal.safe_text import log_text
    from tools.ledger.rows import all_rows, as_text, summed

    found = summed(all_rows(_folder(state_dir)))
    text = json.dumps(found) if output_format == "json" else as_text(found)
    print(log_text(text))
    return text


def harvest(root: str | Path | None = None, state_dir: str | Path | None = None) -> int:
    """Add a row for each agent in the transcripts below `root` (AESOP_TEMP_ROOT), and for what it
    has used since its last row; prints and returns the number of rows."""
    from tools.ledger import harvest as ledger_harvest

    rows, skipped = ledger_harvest.new_rows(root, _folder(state_dir))
    print(f"Harvested {rows}")
    if skipped:
        print(f"Skipped {skipped}")
    return rows


def load_harvest_state(state_dir: str | Path | None = None) -> tuple[set[str], str | None]:
    """The names of the harvested agents, and the time of the last harvest."""
    from tools.ledger import harvest as ledger_harvest

    state = ledger_harvest.load(get_ledger_paths(state_dir)[1])
    return set(state.seen), state.at


def save_harvest_state(
    seen_agents: Iterable[str],
    last_harvest_ts: str | None = None,
    *,
    state_dir: str | Path | None = None,
) -> None:
    """Store the names of the harvested agents."""
    from tools.ledger import harvest as ledger_harvest

    path = get_ledger_paths(state_dir)[1]
    counted = ledger_harvest.load(path).counted
    state = ledger_harvest.HarvestState(set(seen_agents), last_harvest_ts or now(), counted)
    ledger_harvest.save(path, state)


def now() -> str:
    """The present time in the ledger's format."""
    from datetime import UTC, datetime

    from tools.ledger.rows import STAMP

    return datetime.now(UTC).strftime(STAMP)


def main(argv: Sequence[str] | None = None) -> int:
    from driver.cli.flags import Parser, guess
    from driver.terminal.invocation import current
    from tools.program import program

    parser = Parser(prog="fleet_ledger.py", description="The ledger of what agents used.")
    parser.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    commands = parser.add_subparsers(dest="command", required=True)
    append = commands.add_parser("append", help="add a row")
    for name in ("timestamp", "agent_type", "model", "duration_sec", "tokens_in"):
        append.add_argument(name)
    for name, default in (("tokens_out", "0"), ("verdict", "OK"), ("phase", None), ("wave", None)):
        append.add_argument(name, nargs="?", default=default)
    wave = commands.add_parser("append-wave", help="add a wave from its report")
    for name in ("--report-file", "--wave", "--timestamp"):
        wave.add_argument(name, required=True)
    wave.add_argument("--phase", required=True, help="such as build, verify or repair")
    commands.add_parser("harvest", help="add a row for each transcript that has none")
    commands.add_parser("rotate", help="archive the older half of a long ledger")
    commands.add_parser("summary", help="print the totals")
    commands.metavar = f"{{{','.join(commands.choices)}}}"  # named if it is missing
    words = list(sys.argv[1:] if argv is None else argv)
    at = 2 if words[:1] == ["--state-dir"] else 0
    command = "".join(words[at : at + 1])
    if not command.startswith("-"):
        words[at : at + 1] = [command.lower()]
    if command.lower() not in commands.choices and not command.startswith("-"):
        if current().command:
            parser.error(
                f"give one of {', '.join(commands.choices)}{guess(command, commands.choices)}"
            )
        print(f"fleet_ledger: give one of {', '.join(commands.choices)}", file=sys.stderr)
        return REFUSED
    return program(parser, _run, words)


def _run(asked: argparse.Namespace) -> int:
    from driver.terminal.safe_text import log_text

    folder = asked.state_dir
    try:
        if asked.command == "append":
            texts = (asked.timestamp, asked.agent_type, asked.model)
            figures = (asked.duration_sec, asked.tokens_in, asked.tokens_out)
            more = (asked.verdict, asked.phase, asked.wave)
            append_ledger_line(*texts, *figures, *more, state_dir=folder)
            print(f"Appended a row of {asked.timestamp}")
        elif asked.command == "append-wave":
            wave = require_wave(asked.wave, folder)
            where = (asked.report_file, wave, asked.phase, asked.timestamp)
            good, message = append_wave(*where, state_dir=folder)
            print(log_text(message), file=sys.stdout if good else sys.stderr)
            return ExitCode.DONE if good else REFUSED
        elif asked.command == "harvest":
            harvest(state_dir=folder)
        elif asked.command == "rotate":
            rotate(folder)
        else:
            summary("json" if asked.json else "text", folder)
    except InputError as error:
        print(f"fleet_ledger: {log_text(str(error))}", file=sys.stderr)
        return REFUSED
    return ExitCode.DONE


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
    raise InvalidValue(f"a timestamp must be like 2026-01-31T23:59:00Z, not {timestamp!r:.40}")


def _text(name: str, value: str) -> str:
    text = str(value)
    if "|" in text or not text.isprintable():
        raise InvalidValue(f"{name} must be one line without |, not {text!r:.60}")
    return text.strip()


def _seconds(value: Any) -> int:
    try:
        seconds = float(0 if value in (None, "") else value)
    except (TypeError, ValueError):
        seconds = -1.0
    if isinstance(value, bool) or not 0 <= seconds < float("inf"):
        raise InvalidValue(f"duration_sec must be a number of at least 0, not {value!r:.40}")
    return round(seconds)


def _count(name: str, value: Any) -> int:
    from tools.budget.ceilings import counted

    is_text = isinstance(value, str) and value.strip().isdecimal()
    count = counted(int(value) if is_text else value)
    if count is None:
        raise InvalidValue(f"{name} must be a whole number of at least 0, not {value!r:.40}")
    return count


if __name__ == "__main__":
    sys.exit(main())
