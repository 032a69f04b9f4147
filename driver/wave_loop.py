"""Runs one wave of a manifest: the function `run_wave`, and the command line.

The engine is `driver.wave`. This module keeps the names of the original project, and loads only the
modules that a command needs.
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
        sys.modules[__name__] = import_module("driver.wave_loop")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

    from driver.backend_api.driver import AgentDriver
    from driver.run_state.plan import WaveOptions


def run_wave(
    driver: AgentDriver,
    manifest: Mapping[str, Any],
    *,
    state_dir: str | Path | None = None,
    git: Mapping[str, Any] | None = None,
    resume_journal: bool = False,
    options: WaveOptions | None = None,
) -> dict[str, Any]:
    """Bring every item of `manifest` to a verdict and ship what is verified.

    `git` None ships nothing. `{"expectTopLevel": path}` ships to the branch checked out there, with
    `"mode": "branch"` to a new wave branch. `"target": branch` names another branch to start from
    and ship to. docs/formats.md describes the answer. Bad input gives an answer with `aborted` and
    `error`, never an exception.
    """
    from dataclasses import replace

    from driver.backends.duck_typed import adapted
    from driver.run_state.plan import Shipping, WaveOptions
    from driver.wave import report
    from driver.wave import run as wave
    from driver.wave.planning import WaveRequest

    request = WaveRequest(
        driver=adapted(driver),
        manifest=manifest,
        state_dir=Path(state_dir) if state_dir is not None else None,
        shipping=Shipping.from_git(git),
        resume=resume_journal,
        options=replace(options or WaveOptions(), check_ceiling=_check_ceiling),
    )
    return report.to_json(wave.run(request))


def _check_ceiling(**asked: Any) -> dict[str, Any]:
    """Ask the `cost_ceiling` of this module, which a caller may have replaced."""
    answer: dict[str, Any] = sys.modules[__name__].cost_ceiling.check(**asked)
    return answer


def result_to_report(wave_result: Mapping[str, Any]) -> dict[str, Any]:
    """The short form of a result, for ledgers."""
    from driver.wave import report

    return report.result_to_report(wave_result)


def __getattr__(name: str) -> Any:
    from driver import source_names

    return source_names.look_up(source_names.WAVE_LOOP, __name__, name)


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    from driver.cli.flags import Parser, add_common

    parser = Parser(prog="wave_loop.py", description="Run one wave of items with disjoint files.")
    add = parser.add_argument
    add("--manifest", metavar="FILE", help="the items: JSON, see docs/formats.md")
    add("--git", action="store_true", help="ship verified items to a wave branch")
    add("--resume", action="store_true", help="resume the work of an earlier run of this wave")
    add("--one-turn", action="store_true", help="no repair rounds")
    add("--from-phase", metavar="NAME", help="start at this phase; earlier phases count as done")
    add("--confirm", action="store_true", help="ask at the terminal before each phase of an item")
    add("--yes", action="store_true", help="ask nothing, also with --confirm")
    add_common(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns the exit code."""
    args = build_parser().parse_args(argv)
    from driver.cli import command_line

    return command_line.run_manifest(args, run_wave)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:  # while modules load, before the engine handles signals
        sys.exit(130)
