"""The token ceiling as a gate: has this wave or this day spent what it may?

Reads the ledger and never writes it; its one effect is to set the halt switch on a breach. A gate
that cannot find out says that the ceiling is reached. Reserving before a dispatch is `budget`'s.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from state_store.errors import ExitCode, InputError, TidegateError
from tools import halt

if TYPE_CHECKING:
    import argparse

    from tools.settings import Settings

PERIODS = {"wave": "max_wave_tokens", "daily": "max_daily_tokens"}
LEDGER = Path("ledger") / "OUTCOMES-LEDGER.md"
REACHED = 1  # the exit code of --check, as scripts of the source expect it
_UNKNOWN = ("", "-", "none", "null", "n/a", "?")


def check(  # noqa: PLR0913 - the source's parameters, which callers give by name
    spent: float | None = None,
    period: str = "wave",
    config: Mapping[str, Any] | None = None,
    state_dir: str | Path | None = None,
    trip: bool = True,
    window_minutes: float | None = None,
    *,
    wave: str | int | None = None,
) -> dict[str, Any]:
    """Compare spending with the ceiling of `period` ("wave" or "daily"), in tokens.

    `spent` None reads the ledger: the rows of the last `window_minutes`, else of `wave`, else of
    this UTC day; a wave that is not named has spent nothing yet. Returns `period`, `ceiling` (None
    is off), `spent`, `exceeded` (spent >= ceiling), `tripped` (the halt is set) and `reason`.
    When the gate itself fails, `error` says why, `exceeded` is True and nothing is tripped.
    """
    answer: dict[str, Any] = {"period": period, "ceiling": None, "spent": None}
    try:
        known = load_config() if config is None else config
        answer["ceiling"] = ceiling = get_ceiling(known, period)
        folder = halt.resolve_state_dir(config) if state_dir is None else Path(state_dir)
        if spent is None:
            spent = _spent(folder, period, window_minutes, wave)
        answer["spent"] = _amount(spent)
        exceeded = ceiling is not None and spent >= ceiling
        answer |= {"exceeded": exceeded, "tripped": False, "reason": _reason(answer)}
        if exceeded and trip:
            answer["tripped"] = _trip(answer["reason"], folder)
    except Exception as error:  # noqa: BLE001 - whatever fails, a gate answers "stop"
        why = str(error) if isinstance(error, TidegateError) else f"{type(error).__name__}: {error}"
        answer.setdefault("reason", f"the {period} ceiling cannot be checked: {why}")
        answer |= {"exceeded": True, "tripped": False, "error": why}
    return answer


def get_ceiling(config: Mapping[str, Any], period: str) -> int | None:
    """The ceiling in tokens, None when off; raises InputError for anything but a whole number."""
    from tools.settings_schema import TOKENS

    if period not in PERIODS:
        raise InputError(f"{period!r} is no period; use one of {', '.join(PERIODS)}")
    limits = config.get("limits")
    if not isinstance(limits, Mapping | None):
        raise InputError("limits must be a table of limits")
    raw = (limits or {}).get(PERIODS[period])
    try:
        return None if raw is None else int(TOKENS.accept(raw))
    except (ValueError, OverflowError) as error:
        name = PERIODS[period]
        raise InputError(f"limits.{name} must be {TOKENS.says}, not {raw!r:.60}") from error


def load_config(loaded: Settings | None = None) -> dict[str, Any]:
    """`state_root` and `limits` as `check` takes them, of `loaded` or of what is found here."""
    from tools import settings

    found = settings.load() if loaded is None else loaded
    limits = {name: getattr(found.limits, name) for name in PERIODS.values()}
    return {"state_root": str(found.state_dir), "limits": limits}


def read_ledger_total_tokens(
    state_dir: str | Path | None = None,
    *,
    since: datetime | None = None,
    wave: str | int | None = None,
) -> int:
    """Tokens in and out of the ledger's rows, from `since` on and of `wave` where given.

    No ledger is 0. Raises InputError for a ledger that cannot be read to its last row.
    """
    folder = halt.resolve_state_dir() if state_dir is None else Path(state_dir)
    return sum(
        tokens
        for stamp, tokens, of_wave in _rows(folder / LEDGER)
        if (since is None or stamp >= since) and (wave is None or of_wave == str(wave))
    )


def calculate_window_bounds(
    minutes: float, now: datetime | None = None
) -> tuple[datetime, datetime]:
    """The last `minutes` as (start, end) in UTC."""
    end = datetime.now(UTC) if now is None else now
    try:
        if minutes > 0:
            return end - timedelta(minutes=minutes), end
    except (OverflowError, TypeError, ValueError):
        pass
    raise InputError(f"a window must be a number of minutes above 0, not {minutes!r}")


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; returns its exit code."""
    parser = _parser()
    asked = parser.parse_args(argv)
    if not asked.check:
        parser.print_usage(sys.stderr)
        print("cost_ceiling: give --check", file=sys.stderr)
        return ExitCode.BAD_INPUT
    return _answer(asked)


def _parser() -> argparse.ArgumentParser:
    import argparse

    parser = argparse.ArgumentParser(prog="cost_ceiling", description="Check the token ceiling.")
    parser.add_argument("--check", action="store_true", help="exit 1 when reached or unknown")
    parser.add_argument("--spent", type=_number, help="tokens spent (default: from the ledger)")
    parser.add_argument("--period", choices=tuple(PERIODS), default="wave")
    parser.add_argument("--window", type=float, metavar="MIN", help="count the last MIN minutes")
    parser.add_argument("--wave", help="count the rows of this wave")
    parser.add_argument("--state-dir", help="the state folder (default: as the runs find it)")
    return parser


def _answer(asked: argparse.Namespace) -> int:
    import json

    answer = check(
        spent=asked.spent,
        period=asked.period,
        state_dir=asked.state_dir,
        window_minutes=asked.window,
        wave=asked.wave,
    )
    print(json.dumps(answer))
    if answer["exceeded"]:
        print(f"cost_ceiling: {answer['reason']}", file=sys.stderr)
    return REACHED if answer["exceeded"] else ExitCode.DONE


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _spent(folder: Path, period: str, minutes: float | None, wave: str | int | None) -> int:
    if minutes is not None:
        since, _ = calculate_window_bounds(minutes)
        return read_ledger_total_tokens(folder, since=since, wave=wave)
    if period == "daily":
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return read_ledger_total_tokens(folder, since=today, wave=wave)
    return 0 if wave is None else read_ledger_total_tokens(folder, wave=wave)


def _amount(spent: Any) -> float:
    number = isinstance(spent, int | float) and not isinstance(spent, bool)
    if not number or not math.isfinite(spent) or spent < 0:
        raise InputError(f"spent must be a number of tokens of at least 0, not {spent!r:.60}")
    return spent  # type: ignore[no-any-return]


def _reason(answer: Mapping[str, Any]) -> str:
    period, ceiling, spent = answer["period"], answer["ceiling"], answer["spent"]
    if ceiling is None:
        return f"no {period} ceiling is set"
    state = "reached" if spent >= ceiling else "not reached"
    return f"{period} ceiling {state}: {spent} of {ceiling} tokens spent"


def _trip(reason: str, folder: Path) -> bool:
    if not halt.is_halted(folder):  # the first reason for a halt is the one to keep
        halt.halt(reason, folder)
    return True


def _rows(ledger: Path) -> Iterator[tuple[datetime, int, str]]:
    from state_store.files import MissingFileError, read_text

    try:
        lines = read_text(ledger).splitlines()
    except MissingFileError:
        return
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.lstrip().startswith("|") and any(letter.isdigit() for letter in cells[0]):
            try:
                yield _row(cells)
            except (ValueError, IndexError) as error:
                raise InputError(f"{ledger} line {number} is no row of a ledger") from error


def _row(cells: Sequence[str]) -> tuple[datetime, int, str]:
    stamp = datetime.fromisoformat(cells[0])
    wave = cells[8] if len(cells) > 8 else ""
    aware = stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)
    return aware, _tokens(cells[4]) + _tokens(cells[5]), wave


def _tokens(cell: str) -> int:
    count = 0 if cell.lower() in _UNKNOWN else int(cell)
    if count < 0:
        raise ValueError(cell)
    return count


if __name__ == "__main__":
    sys.exit(main())
