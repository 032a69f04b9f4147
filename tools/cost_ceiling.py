"""The token ceiling as a gate for a wave or a day.

Reads the totals of store and ledger. Its only effect is to set the halt switch if the ceiling is
reached. If the gate fails, it answers that the ceiling is reached. The budget reserves room before
a dispatch.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.cost_ceiling")

from state_store.documents.errors import ExitCode, InputError, InvalidValue, TidegateError
from tools import halt

if TYPE_CHECKING:
    import argparse

    from tools.settings.load import Settings

WAVE, DAILY = "wave", "daily"
PERIODS = {WAVE: "max_wave_tokens", DAILY: "max_daily_tokens"}
WAVE_VARIABLE = "AESOP_WAVE"
LEDGER = Path("ledger") / "OUTCOMES-LEDGER.md"
REACHED = 1  # the exit code of --check, as scripts of the source expect it


def check(  # noqa: PLR0913 - the source's parameters, which callers give by name
    spent: float | None = None,
    period: str = WAVE,
    config: Mapping[str, Any] | None = None,
    state_dir: str | Path | None = None,
    trip: bool = True,
    window_minutes: float | None = None,
    *,
    wave: str | int | None = None,
) -> dict[str, Any]:
    """Compare spending with the ceiling of `period` ("wave" or "daily"), in tokens.

    `spent` None reads store and ledger: for the last `window_minutes`, else for `wave` or the wave
    in AESOP_WAVE, else for this UTC day. Returns `period`, `ceiling` (None is off), `spent`,
    `exceeded` (spent >= ceiling), `tripped` (the halt is set) and `reason`. The reason is None if
    all is well, but it always tells that the day was counted because no wave was named. If the gate
    itself fails, `error` is the reason, `exceeded` is True and nothing is tripped.
    """
    answer: dict[str, Any] = {"period": period, "ceiling": None, "spent": None}
    try:
        known = load_config() if config is None else config
        answer["ceiling"] = ceiling = get_ceiling(known, period)
        folder = halt.resolve_state_dir(config) if state_dir is None else Path(state_dir)
        counted = ""
        if spent is None:
            spent, counted = _spent(folder, period, window_minutes, wave)
        answer["spent"] = _amount(spent)
        exceeded = ceiling is not None and spent >= ceiling
        state = f"{'' if exceeded else 'not '}reached: {spent} of {ceiling} tokens spent{counted}"
        has_reason = exceeded or (ceiling is not None and counted)
        reason = f"{period} cost ceiling {state}" if has_reason else None
        answer |= {"exceeded": exceeded, "tripped": False, "reason": reason}
        if reason and exceeded and trip:
            if not halt.is_halted(folder):  # keep the first reason for a halt
                halt.halt(reason, folder)
            answer["tripped"] = True
    except Exception as error:  # noqa: BLE001 - after any failure a gate answers "stop"
        why = str(error) if isinstance(error, TidegateError) else f"{type(error).__name__}: {error}"
        answer.setdefault("reason", f"the {period} ceiling cannot be checked: {why}")
        answer |= {"exceeded": True, "tripped": False, "error": why}
    return answer


def get_ceiling(config: Mapping[str, Any], period: str) -> int | None:
    """The ceiling in tokens; None if off. Raises InputError unless it is a whole number."""
    from tools.settings.kinds import TOKENS

    if period not in PERIODS:
        raise InvalidValue(f"{period!r} is not a period; use one of {', '.join(PERIODS)}")
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
    """The config for `check`: `state_root` and `limits` in force, from `loaded` or from the
    settings of this folder, and all other keys of the folder's aesop.config.json."""
    from tools.settings import load as settings
    from tools.settings.sources import original_config

    found = settings.load() if loaded is None else loaded
    limits = {name: getattr(found.limits, name) for name in PERIODS.values()}
    kept = original_config(found.files)
    others = kept.get("limits") if isinstance(kept.get("limits"), Mapping) else {}
    return {**kept, "state_root": str(found.state_dir), "limits": {**(others or {}), **limits}}


def read_ledger_total_tokens(
    state_dir: str | Path | None,
    period: str = WAVE,
    window_minutes: float | None = None,
    *,
    since: datetime | None = None,
    wave: str | int | None = None,
) -> int:
    """Tokens in and out of the ledger's rows, with archives: of the last `window_minutes`, of this
    UTC day for the period "daily", else from `since` on; only of `wave` if it is named.

    0 without a ledger. Raises InputError for an unreadable ledger.
    """
    from tools.ledger.rows import all_rows

    folder = halt.resolve_state_dir() if state_dir is None else Path(state_dir)
    if window_minutes is not None:
        since, _ = calculate_window_bounds(window_minutes)
    elif period == DAILY and since is None:
        since = _midnight()
    rows = all_rows(folder, since)
    return sum(row.tokens for row in rows if wave is None or row.wave == str(wave))


def calculate_window_bounds(
    window_minutes: float, now: datetime | None = None
) -> tuple[datetime, datetime]:
    """The last `window_minutes` as (start, end) in UTC. Raises ValueError for no such time."""
    end = datetime.now(UTC) if now is None else now
    try:
        if window_minutes > 0:
            return end - timedelta(minutes=window_minutes), end
    except (OverflowError, TypeError, ValueError):
        pass
    raise InvalidValue(f"a window must be a number of minutes above 0, not {window_minutes!r}")


def main(argv: Sequence[str] | None = None) -> int:
    from driver.cli.flags import Parser
    from tools.program import program

    parser = Parser(prog="cost_ceiling.py", description="Check the token ceiling.")
    parser.add_argument("--check", action="store_true", help="exit 1 if reached or unknown")
    parser.add_argument("--spent", type=_number, help="tokens spent (default: from the ledger)")
    parser.add_argument(
        "--period",
        choices=tuple(PERIODS),
        default=WAVE,
        help="the period of the ceiling (default: wave)",
    )
    parser.add_argument("--window", type=float, metavar="MIN", help="count the last MIN minutes")
    parser.add_argument(
        "--wave", help="count the tokens of this wave (default: AESOP_WAVE, else of this UTC day)"
    )
    parser.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return program(parser, _run, argv)


def _run(asked: argparse.Namespace) -> int:
    from tools.program import show
    from tools.settings.load import note_store

    note_store(asked.state_dir, None)
    if not asked.check:
        raise InputError("give --check")
    answer = check(
        spent=asked.spent,
        period=asked.period,
        state_dir=asked.state_dir,
        window_minutes=asked.window,
        wave=asked.wave,
    )
    show(answer, (), as_json=True)
    if answer["exceeded"]:
        from driver.terminal.safe_text import log_text

        print(f"cost_ceiling: {log_text(answer['reason'])}", file=sys.stderr)
    return REACHED if answer["exceeded"] else ExitCode.DONE


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _spent(
    folder: Path, period: str, minutes: float | None, wave: str | int | None
) -> tuple[int, str]:
    """The tokens of store and ledger, for the named wave or window, or else for the day. The text
    tells that the day stands in for a wave without a name, which would have spent nothing."""
    from tools.budget import budget
    from tools.settings import load as settings

    since, counted = None, ""
    if minutes is not None:
        since, _ = calculate_window_bounds(minutes)
    elif period == DAILY:
        since = _midnight()
    elif wave is None:
        wave = settings.process_environment().get(WAVE_VARIABLE, "").strip() or None
        if wave is None:
            since, counted = _midnight(), " on this UTC day, which counts if no wave is named"
    return budget.tokens(folder, since, None if wave is None else str(wave)), counted


def _midnight() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def _amount(spent: Any) -> float:
    number = isinstance(spent, int | float) and not isinstance(spent, bool)
    if not number or not math.isfinite(spent) or spent < 0:
        raise InputError(f"spent must be a number of tokens of at least 0, not {spent!r:.60}")
    return spent  # type: ignore[no-any-return]


if __name__ == "__main__":
    sys.exit(main())
