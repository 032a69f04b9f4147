"""Projects spending from the rate of the last minutes, and the time until the ceiling.

Reads the ledger. Its only effect is an alert for people, once for each wave at 70 and at 90
percent. The budget stops waves, not this program.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.cost_projection")

from state_store.documents.errors import ExitCode, InputError
from tools import cost_ceiling, halt

if TYPE_CHECKING:
    import argparse

Row = Mapping[str, Any]

WINDOW_MINUTES = 30
HORIZON_MINUTES = 60
ALERT_LEVELS = {70: "HIGH", 90: "CRITICAL"}
THIN = 3
ALERTS = "SECURITY-ALERTS.log"
NO_WAVE = 1  # the exit code without a wave, as scripts of the source expect it


def project(
    window_minutes: float = WINDOW_MINUTES,
    ceiling: int | None = None,
    config: Mapping[str, Any] | None = None,
    horizon_minutes: float | None = None,
    *,
    wave: str | int | None = None,
    state_dir: str | Path | None = None,
) -> dict[str, Any]:
    """Project the tokens at the end of the horizon, at the rate of the window.

    `current` is the spending of `wave`, or of the window if no row has that wave. `ceiling` None
    means the ceiling in the settings. `projected` are the tokens of the horizon alone,
    `projected_total` includes what is spent. `by_role` divides the window by model. Raises
    InputError for a bad window, limit or ledger; `reason` is always None.
    """
    from tools.fleet_ledger import parse_ledger_rows

    known = load_config_file() if config is None else config
    folder = get_state_dir(known) if state_dir is None else Path(state_dir)
    rows = parse_ledger_rows(folder, archived=True)
    recent = filter_ledger_by_window(rows, window_minutes)
    of_wave = [row for row in rows if wave is not None and str(row["wave"]) == str(wave)]
    current, rate = _tokens(of_wave or recent), _tokens(recent) / window_minutes
    horizon = get_horizon_minutes(known) if horizon_minutes is None else horizon_minutes
    limit = get_ceiling(known) if ceiling is None else ceiling
    percent, left, met = _against(limit, current, rate)
    return {
        "current": current,
        "burn_rate_per_min": rate,
        "projected": int(rate * horizon),
        "projected_total": current + int(rate * horizon),
        "ceiling": limit,
        "pct_of_ceiling": percent,
        "minutes_to_ceiling": left,
        "is_thin_window": len(recent) < THIN,
        "by_role": _by_model(recent),
        "summary": f"{current} tokens spent, {rate:.0f} a minute; {met}",
        "reason": None,
    }


def _by_model(rows: Iterable[Row]) -> dict[str, dict[str, int]]:
    sums: dict[str, dict[str, int]] = {}
    for row in rows:
        nothing = {"tokens_in": 0, "tokens_out": 0, "total": 0, "entries": 0}
        one = sums.setdefault(row["model"], nothing)
        one["tokens_in"] += row["tokens_in"]
        one["tokens_out"] += row["tokens_out"]
        one["total"] += _tokens([row])
        one["entries"] += 1
    return sums


def _against(
    limit: int | None, current: int, rate: float
) -> tuple[float | None, float | None, str]:
    """The percentage of the ceiling, the minutes until it is met, and both in words."""
    if limit is None:
        return None, None, "no wave ceiling is set"
    percent, left = round(100 * current / limit, 1) if limit else 100.0, None
    if current >= limit or rate:
        left = 0.0 if current >= limit else (limit - current) / rate
    when = "not met at this rate" if left is None else f"met in {left:.0f} minutes"
    return percent, left, f"the ceiling of {limit} ({percent} %) is {when}"


def check_and_alert(
    window_minutes: float = WINDOW_MINUTES,
    ceiling: int | None = None,
    wave: str | int | None = None,
    config: Mapping[str, Any] | None = None,
    horizon_minutes: float | None = None,
    *,
    state_dir: str | Path | None = None,
) -> dict[str, Any]:
    """Alert once for each wave at 70 and at 90 percent of its ceiling. `alert_level` is the highest
    level reached, "70" or "90", or None. Raises ValueError if no wave is named."""
    from tools.fleet_ledger import now
    from tools.settings import load as settings

    variable = cost_ceiling.WAVE_VARIABLE
    named = wave if wave is not None else settings.process_environment().get(variable)
    if named is None or not str(named).strip():
        raise ValueError(f"name the wave with --wave or {variable}")
    name = str(named).strip()
    known = load_config_file() if config is None else config
    folder = get_state_dir(known) if state_dir is None else Path(state_dir)
    found = project(window_minutes, ceiling, known, horizon_minutes, wave=name, state_dir=folder)
    percent = found["pct_of_ceiling"]
    reached = [level for level in ALERT_LEVELS if percent is not None and percent >= level]
    fired = False
    for level in reached:
        if check_alert_already_fired(folder, level, name):
            continue
        what = f"{ALERT_LEVELS[level]} cost alert: wave {name} is above {level}%"
        if append_alert_log(folder, f"{now()} {what}: {found['summary']}"):
            mark_alert_fired(folder, level, name)
            fired = True
    kept = ("current", "ceiling", "pct_of_ceiling", "minutes_to_ceiling")
    highest = str(reached[-1]) if reached else None
    return {"alert_level": highest, **{key: found[key] for key in kept}, "fired_alert": fired}


def get_state_dir(config: Mapping[str, Any] | None = None) -> Path:
    """The state folder, found as runs find it."""
    return halt.resolve_state_dir(config)


def get_ceiling(config: Mapping[str, Any] | None) -> int | None:
    """The ceiling of a wave in tokens; None if off. Raises InputError for an invalid ceiling."""
    return None if config is None else cost_ceiling.get_ceiling(config, cost_ceiling.WAVE)


def get_horizon_minutes(config: Mapping[str, Any] | None) -> float:
    """The usual minutes of a wave. Raises InputError unless it is a number above 0."""
    limits = (config or {}).get("limits") or {}
    minutes = limits.get("wave_duration_minutes", HORIZON_MINUTES)
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
        raise InputError(f"limits.wave_duration_minutes must be above 0, not {minutes!r:.40}")
    return minutes


def filter_ledger_by_window(rows: Iterable[Row], window_minutes: float) -> list[Row]:
    """The rows of the last minutes, and those without a time."""
    from tools.ledger.rows import time_of

    start, _ = cost_ceiling.calculate_window_bounds(window_minutes)
    return [row for row in rows if time_of(str(row["iso_ts"])) >= start]


def get_alert_flag_path(state_dir: str | Path, threshold: int, wave: str | int) -> Path:
    """The file that marks this alert as sent."""
    from state_store.documents.journal import stored_slug

    return Path(state_dir) / f".cost-alert-{threshold}-w{stored_slug(str(wave))}"


def check_alert_already_fired(state_dir: str | Path, threshold: int, wave: str | int) -> bool:
    """True if the alert was sent."""
    return get_alert_flag_path(state_dir, threshold, wave).exists()


def mark_alert_fired(state_dir: str | Path, threshold: int, wave: str | int) -> None:
    """Mark the alert as sent. Raises CannotRunError."""
    from state_store.documents.files import write_text_atomic
    from tools.fleet_ledger import now

    write_text_atomic(get_alert_flag_path(state_dir, threshold, wave), f"{now()}\n")


def append_alert_log(state_dir: str | Path, alert_line: str) -> bool:
    """Add a line to the log of alerts; False if that fails."""
    path = Path(state_dir) / ALERTS
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as log:
            log.write(" ".join(alert_line.split()) + "\n")
    except OSError:
        return False
    return True


def load_config_file(config_path: str | Path | None = None) -> dict[str, Any]:
    """`state_root` and `limits` of the settings, or of the config file at `config_path`."""
    from tools.settings import load as settings

    loaded = settings.load(config=None if config_path is None else Path(config_path))
    config = cost_ceiling.load_config(loaded)
    config["limits"]["wave_duration_minutes"] = loaded.limits.wave_duration_minutes
    return config


def main(argv: Sequence[str] | None = None) -> int:
    from driver.cli.flags import Parser
    from tools.program import program

    parser = Parser(prog="cost_projection.py", description="Project what is spent.")
    parser.add_argument("--projection", action="store_true", help="print the projection (default)")
    parser.add_argument("--check-alerts", action="store_true", help="alert at 70 and 90 percent")
    parser.add_argument("--window", type=float, default=WINDOW_MINUTES, metavar="MIN")
    parser.add_argument("--horizon", type=float, metavar="MIN", help="minutes to look ahead")
    parser.add_argument("--ceiling", type=int, help="tokens (default: from the settings)")
    parser.add_argument("--wave", help="the wave (default: AESOP_WAVE)")
    parser.add_argument("--config", metavar="FILE", help="the config file")
    parser.add_argument("--state-dir", help="the state folder (default: that of the settings)")
    return program(parser, _run, argv)


def _run(asked: argparse.Namespace) -> int:
    from tools.program import show
    from tools.settings.load import note_store

    note_store(asked.state_dir, asked.config)
    found: dict[str, Any] = {}
    if asked.ceiling is not None and asked.ceiling < 0:
        raise InputError(f"--ceiling is a number of tokens of at least 0, not {asked.ceiling}")
    if asked.horizon is not None and not asked.horizon >= 0:
        raise InputError(f"--horizon is a number of minutes of at least 0, not {asked.horizon:g}")
    try:
        config = load_config_file(asked.config)
        folder = get_state_dir(config) if asked.state_dir is None else Path(asked.state_dir)
        given = (asked.window, asked.ceiling)
        then: tuple[Any, ...] = (config, asked.horizon)
        if asked.projection or not asked.check_alerts:
            found |= project(*given, *then, wave=asked.wave, state_dir=folder)
        if asked.check_alerts:
            found |= check_and_alert(*given, asked.wave, *then, state_dir=folder)
    except InputError:
        raise
    except ValueError as error:
        from driver.terminal.safe_text import log_text

        print(f"cost_projection: {log_text(str(error))}", file=sys.stderr)
        return NO_WAVE
    show(found, (f"{name}: {value}" for name, value in found.items()), as_json=asked.json)
    return ExitCode.DONE


def _tokens(rows: Iterable[Row]) -> int:
    return sum(row["tokens_in"] + row["tokens_out"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
