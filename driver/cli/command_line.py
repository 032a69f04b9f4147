"""Runs both engine programs: reads settings, handles signals, writes the report."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from driver.backends.registry import driver_of
from driver.backlog.item_filter import ItemFilter
from driver.cli.plan_lines import plan_lines
from driver.cli.report_files import check_places, keep_standard_files, kept_beside_run, write_report
from driver.execution.cancellation import CancellationToken, listening
from driver.git.repository import open_repository
from driver.reports.summary_lines import page_line, summary_lines, table
from driver.run_state.plan import Shipping, WaveOptions
from driver.run_state.state_folder import prepare_state_dir
from driver.scheduler import cycle
from driver.scheduler.context import CycleRequest, repository_in_sight
from driver.terminal.color import is_terminal, width_of_terminal
from driver.terminal.invocation import schema
from driver.terminal.progress import Progress, Terminal, to_stderr
from driver.terminal.redacting_stream import hiding_secrets
from driver.wave.dry_run import describe_dry_run
from driver.wave.planning import WaveRequest, check, wave_id_of
from driver.workspace.repository_info import RepositoryInfo
from state_store.documents import failpoints
from state_store.documents.errors import InputError, TidegateError
from state_store.documents.json_document import read_json
from state_store.redaction.installed import hide
from tools.program import require_current_folder
from tools.settings.load import Settings, process_environment
from tools.settings.load import load as load_settings
from tools.settings.schema import FLAGS
from tools.settings.secret_values import secret_values

Job = Callable[[argparse.Namespace, cycle.RunWave, CancellationToken, ExitStack], dict[str, Any]]


def run_manifest(args: argparse.Namespace, run_wave: cycle.RunWave) -> int:
    """Runs `wave_loop.py`."""
    return _program(args, run_wave, _manifest_report)


def run_cycle(args: argparse.Namespace, run_wave: cycle.RunWave) -> int:
    """Runs `wave_scheduler.py`."""
    return _program(args, run_wave, _cycle_report)


def _program(args: argparse.Namespace, run_wave: cycle.RunWave, job: Job) -> int:
    keep_standard_files()
    output = None  # until the file is proven writable
    lines: tuple[str, ...] = ()
    # The secrets are hidden, and signals heard, also around the report, which has to be whole.
    # Places are removed last: nobody waits for that.
    with (
        hiding_secrets(process_environment()),
        listening(CancellationToken()) as stop,
        ExitStack() as later,
    ):
        try:
            require_current_folder()
            check_places(args)
            output = args.output
            if args.demo is not None:
                from driver.cli import demo  # noqa: PLC0415 - only the demo needs its files

                folder = demo.make(Path(args.demo) if args.demo else None)
                report = _cycle_report(demo.arguments(args, folder), run_wave, stop, later)
                lines = demo.farewell(folder, report)
            else:
                report = job(args, run_wave, stop, later)
                lines = summary_lines(report)
        except TidegateError as error:
            report = {"success": False, "error": str(error), "exit_code": int(error.exit_code)}
        if failpoints.active():
            report = {**report, "failpoints": "active"}
        code = _answer(args, report, output)
        # Last, so that a terminal shows them below the long report.
        stopped = [str(report["error"])] if report.get("error") else []
        told = to_stderr()
        for row, color in table(report, width_of_terminal(sys.stderr)):
            told.row(row, color)
        for line in (*page_line(report), *lines, *stopped):
            told.say(line)
    return code


def _answer(args: argparse.Namespace, report: dict[str, Any], output: str | None) -> int:
    """Writes the report where a program reads it, and returns the exit code. A person at a
    terminal gets the summary, and of a dry run the plan."""
    if args.json:
        report = {"schema": schema(), **report}
    if output or args.json or not is_terminal(sys.stdout):
        return write_report(report, output)
    for line in plan_lines(report) if report.get("dry_run") else ():
        sys.stdout.write(f"{line}\n")
    return int(report.get("exit_code", not report.get("success", True)))


def _progress(args: argparse.Namespace) -> Progress:
    return Progress(None) if args.quiet else to_stderr()


def _manifest_report(
    args: argparse.Namespace, run_wave: cycle.RunWave, stop: CancellationToken, later: ExitStack
) -> dict[str, Any]:
    if not args.manifest:
        raise InputError("--manifest is missing: name the JSON file with the wave's items")
    repo = _repository(args, ())
    settings = _settings(args, repo)
    survey = RepositoryInfo(settings.environ)
    options = WaveOptions(settings, repo, progress=_progress(args), stop=stop, survey=survey)
    options = replace(options, from_phase=args.from_phase, clean_up=later)
    request = _wave_request(args, settings, options)
    try:
        plan = check(request, dry=args.dry_run)
    except TidegateError as error:  # the wave cannot start; nothing has been created
        from driver.wave.conclusion import aborted  # noqa: PLC0415 - a dry run needs neither
        from driver.wave.report import to_json  # noqa: PLC0415

        return to_json(aborted(wave_id_of(request.manifest), error))
    if args.dry_run:
        return {**describe_dry_run(request.driver, request.manifest, plan.items), "exit_code": 0}
    with _asking(args, replace(options, plan=plan)) as options:
        prepare_state_dir(settings.state_dir, settings.environ)
        from driver.backends.recording import RecordingWriter  # noqa: PLC0415 - by need

        recording = RecordingWriter(Path(args.record)) if args.record else None
        report = run_wave(
            request.driver,
            request.manifest,
            state_dir=settings.state_dir,
            git=_git(args, settings, options.repo),
            resume_journal=args.resume,
            options=replace(options, recording=recording),
        )
        return kept_beside_run(report, settings.state_dir, settings.environ)


@contextmanager
def _asking(args: argparse.Namespace, options: WaveOptions) -> Iterator[WaveOptions]:
    """Adds the terminal that `--confirm` asks at. Raises InputError if there is none."""
    if not args.confirm or args.yes:
        yield options
        return
    terminal = Terminal.opened()
    try:
        yield replace(options, ask=terminal.ask)
    finally:
        terminal.close()


def _wave_request(
    args: argparse.Namespace, settings: Settings, options: WaveOptions
) -> WaveRequest:
    return WaveRequest(
        driver=driver_of(settings),
        manifest=_bounded(args, read_json(Path(args.manifest), "manifest").value),
        state_dir=settings.state_dir,
        shipping=Shipping.from_git(_git(args, settings, options.repo)),
        resume=args.resume,
        options=options,
    )


def _git(args: argparse.Namespace, settings: Settings, repo: Path | None) -> dict[str, Any] | None:
    if not args.git:
        return None
    return {"expectTopLevel": str(repo) if repo else None, "mode": settings.ship.mode}


def _cycle_report(
    args: argparse.Namespace, run_wave: cycle.RunWave, stop: CancellationToken, later: ExitStack
) -> dict[str, Any]:
    repo = _repository(args, [Path(args.tracker).parent] if args.tracker else [])
    settings = _settings(args, repo)
    options = WaveOptions(settings, repo, progress=_progress(args), stop=stop, clean_up=later)
    report = cycle.run(
        CycleRequest(
            tracker=Path(args.tracker or settings.state_dir / "tracker.json"),
            max_items=args.max_items,
            dry_run=args.dry_run or not args.execute,
            driver=driver_of(settings),
            state_dir=settings.state_dir,
            options=options,
            record=Path(args.record) if args.record else None,
            item_filter=ItemFilter(tuple(args.only or ()), tuple(args.label or ()), args.lane),
        ),
        run_wave,
    )
    return kept_beside_run(report, settings.state_dir, settings.environ)


def _repository(args: argparse.Namespace, elsewhere: Sequence[Path]) -> Path | None:
    """Returns the repository of `--repo`, else of the current folder, else of an item's folder."""
    environ = process_environment()
    if args.repo:
        return open_repository(Path(args.repo), environ).top
    return repository_in_sight((Path.cwd(), *elsewhere))


def _settings(args: argparse.Namespace, repo: Path | None) -> Settings:
    settings = load_settings(
        project=repo,
        config=Path(args.config) if args.config else None,
        flags={
            name: getattr(args, flag.removeprefix("--").replace("-", "_"))
            for name, flag in FLAGS.items()
        },
    )
    hide(secret_values(settings))
    return settings


def _bounded(args: argparse.Namespace, manifest: Any) -> Any:
    """Removes all repair rounds from the items if `--one-turn` is set."""
    if not args.one_turn or not isinstance(manifest, dict):
        return manifest
    items = manifest.get("items")
    if not isinstance(items, list):
        return manifest
    return {
        **manifest,
        "items": [{**i, "repairCap": 0} if isinstance(i, dict) else i for i in items],
    }
