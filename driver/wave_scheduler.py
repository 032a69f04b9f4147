"""Runs one cycle: selects items of a tracker, runs a wave on them, updates the tracker.

Only the command line and the original project's names; the cycle is in `driver.scheduler.cycle`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("driver.wave_scheduler")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from typing import Any

    from driver.backend_api.driver import AgentDriver
    from driver.run_state.plan import WaveOptions

DEFAULT_MAX_ITEMS = 5


def run_wave_scheduler(
    tracker_path: str | Path,
    max_items: int = DEFAULT_MAX_ITEMS,
    dry_run: bool = False,
    driver: AgentDriver | None = None,
    state_dir: str | Path | None = None,
    *,
    options: WaveOptions | None = None,
) -> dict[str, Any]:
    """Runs one cycle. Returns the report in docs/formats.md, with `success` and `exit_code`.

    Uses `run_wave`, `halt` and `cost_ceiling` of this module, which a caller may have replaced.
    """
    from driver.scheduler import cycle
    from driver.scheduler.context import CycleRequest

    here = sys.modules[__name__]
    return cycle.run(
        CycleRequest(
            tracker=Path(tracker_path),
            max_items=max_items,
            dry_run=dry_run,
            driver=driver,
            state_dir=Path(state_dir) if state_dir is not None else None,
            options=options,
            check_gates=here.check_gates,
        ),
        here.run_wave,
    )


def __getattr__(name: str) -> Any:
    from driver import source_names

    return source_names.look_up(source_names.WAVE_SCHEDULER, __name__, name)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    from driver.cli.flags import Parser, add_common

    parser = Parser(prog="wave_scheduler.py", description="Run one wave of a backlog's next items.")
    add = parser.add_argument
    add("--tracker", metavar="FILE", help="the backlog (default: STATE_DIR/tracker.json)")
    add("--max-items", metavar="N", type=int, default=DEFAULT_MAX_ITEMS, help="(default: 5)")
    slug = "only these items, by slug or id; may be repeated"
    add("--only", metavar="SLUG", nargs="+", action="extend", help=slug)
    add("--label", metavar="LABEL", action="append", help="items with this label; may be repeated")
    add("--lane", metavar="LANE", help="items of this lane, such as a team")
    add("--execute", action="store_true", help="run the wave; without this flag it is a dry run")
    add_common(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns the exit code."""
    args = build_parser().parse_args(argv)
    from driver.cli import command_line

    return command_line.run_cycle(args, sys.modules[__name__].run_wave)


def plan(argv: Sequence[str] | None = None) -> int:
    """The word `plan` of the command: a dry run, whatever the flags say. Returns the exit code."""
    parser = build_parser()
    parser.description = "Show what a run would do. Spends and writes nothing."
    args = parser.parse_args(argv)
    args.dry_run = True
    from driver.cli import command_line

    return command_line.run_cycle(args, sys.modules[__name__].run_wave)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # while modules load, before the engine handles signals
        sys.exit(130)
