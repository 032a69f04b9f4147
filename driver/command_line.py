"""What both programs do around a wave: settings, signals, one JSON report, the exit code."""

from __future__ import annotations

import argparse
import json
import os
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from driver import cycle
from driver.backend_config import driver_from
from driver.closing import closing_lines
from driver.conclusion import aborted
from driver.dry_run import describe_dry_run
from driver.git import open_repository
from driver.json_document import read_json
from driver.opening import WaveRequest, check
from driver.progress import to_stderr
from driver.recording import RecordingWriter
from driver.report import to_json
from driver.state_folder import check_state_dir, held
from driver.stop import Stop, listening
from driver.wave_context import Shipping, WaveOptions
from state_store.errors import CannotRunError, ExitCode, InputError, TidegateError
from state_store.files import write_json_atomic, write_text_atomic
from state_store.journal import safe_slug
from tools.settings import Settings, process_environment
from tools.settings import load as load_settings

Job = Callable[[argparse.Namespace, cycle.RunWave, Stop], dict[str, Any]]


def run_manifest(args: argparse.Namespace, run_wave: cycle.RunWave) -> int:
    """`wave_loop.py`, which is `run_wave`'s home."""
    return _program(args, run_wave, _manifest_report)


def run_cycle(args: argparse.Namespace, run_wave: cycle.RunWave) -> int:
    """`wave_scheduler.py`."""
    return _program(args, run_wave, _cycle_report)


def _program(args: argparse.Namespace, run_wave: cycle.RunWave, job: Job) -> int:
    _keep_standard_files()
    output = None  # until it is known to be a place for a report
    lines: tuple[str, ...] = ()
    try:
        _check_places(args)
        output = args.output
        with listening(Stop()) as stop:
            report, lines = _done(args, run_wave, job, stop)
    except TidegateError as error:
        report = {"success": False, "error": str(error), "exit_code": int(error.exit_code)}
    code = _emit(report, output)
    # Last, so that on a terminal they stand below the long report.
    for line in (*lines, *([str(report["error"])] if report.get("error") else [])):
        to_stderr().say(line)
    return code


def _done(
    args: argparse.Namespace, run_wave: cycle.RunWave, job: Job, stop: Stop
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The report, and what people are told after it."""
    if args.demo is not None:
        return _demo_done(args, run_wave, stop)
    report = job(args, run_wave, stop)
    return report, closing_lines(report)


def _keep_standard_files() -> None:
    """A program started without stdin, stdout or stderr must not open its own files as these."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, so this one


def _check_places(args: argparse.Namespace) -> None:
    """A place that cannot be written is better known before money is spent."""
    taken = {
        f"--{name}": os.path.realpath(value)
        for name in ("config", "tracker", "manifest")
        if (value := getattr(args, name, None))
    }
    for flag, named in (("--output", args.output), ("--record", args.record)):
        if named is None:
            continue
        path = Path(named)
        _check_not_taken(flag, path, taken)
        if path.is_dir() or not path.parent.is_dir():
            why = "is a folder" if path.is_dir() else f"has no folder {path.parent} to lie in"
            raise InputError(f"{flag} {named} {why}: name a file in a folder that exists")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CannotRunError(f"{flag} {named} may not be written: name another place")
    if args.record and Path(args.record).is_file() and Path(args.record).stat().st_size:
        RecordingWriter(Path(args.record))  # refuses what is no recording


def _check_not_taken(flag: str, path: Path, taken: dict[str, str]) -> None:
    real = os.path.realpath(path)
    for other, theirs in taken.items():
        if real == theirs:
            raise InputError(f"{flag} {path} is the file of {other}: name another one")
    taken[flag] = real


def _demo_done(
    args: argparse.Namespace, run_wave: cycle.RunWave, stop: Stop
) -> tuple[dict[str, Any], tuple[str, ...]]:
    from driver import demo  # noqa: PLC0415 - only the demo needs its files

    folder = demo.make(Path(args.demo) if args.demo else None)
    report = _cycle_report(demo.arguments(args, folder), run_wave, stop)
    return report, demo.farewell(folder, report)


def _manifest_report(
    args: argparse.Namespace, run_wave: cycle.RunWave, stop: Stop
) -> dict[str, Any]:
    if not args.manifest:
        raise InputError("--manifest is missing: name the JSON file with the wave's items")
    manifest = _bounded(args, read_json(Path(args.manifest), "manifest").value)
    repo = _repository(args, ())
    settings = _settings(args, repo)
    driver = driver_from(settings.backend, settings.environ)
    git = {"expectTopLevel": str(repo) if repo else None, "mode": "branch"} if args.git else None
    options = WaveOptions(settings=settings, repo=repo, progress=to_stderr(), stop=stop)
    request = WaveRequest(
        driver, manifest, settings.state_dir, Shipping.from_git(git), False, options
    )
    refusal = _refusal(request, dry=args.dry_run)
    if refusal is not None:
        return refusal
    if args.dry_run:
        return {**describe_dry_run(driver, manifest), "exit_code": 0}
    with held(settings.state_dir, settings.environ):
        recording = RecordingWriter(Path(args.record)) if args.record else None
        report = run_wave(
            driver,
            manifest,
            state_dir=settings.state_dir,
            git=git,
            options=replace(options, recording=recording),
        )
    return _kept(report, settings.state_dir)


def _refusal(request: WaveRequest, *, dry: bool) -> dict[str, Any] | None:
    """The report of a wave that cannot start; None when it can. Nothing has been made."""
    try:
        check(request, dry=dry)
        if not dry and request.state_dir is not None:
            check_state_dir(request.state_dir, request.options.repo)
    except TidegateError as error:
        named = request.manifest.get("wave_id") if isinstance(request.manifest, dict) else None
        return to_json(aborted(str(named or uuid.uuid4()), error))
    return None


def _cycle_report(args: argparse.Namespace, run_wave: cycle.RunWave, stop: Stop) -> dict[str, Any]:
    repo = _repository(args, [Path(args.tracker).parent] if args.tracker else [])
    settings = _settings(args, repo)
    report = cycle.run(
        cycle.CycleRequest(
            tracker=Path(args.tracker or settings.state_dir / "tracker.json"),
            max_items=args.max_items,
            dry_run=args.dry_run or not args.execute,
            driver=driver_from(settings.backend, settings.environ),
            state_dir=settings.state_dir,
            options=WaveOptions(settings=settings, repo=repo, progress=to_stderr(), stop=stop),
            record=Path(args.record) if args.record else None,
        ),
        run_wave,
    )
    return _kept(report, settings.state_dir)


def _kept(report: dict[str, Any], state_dir: Path) -> dict[str, Any]:
    """The same report, also beside what the wave's agents and tests printed: whoever closed
    stdout finds it there."""
    try:
        folder = state_dir / "runs" / safe_slug(str(report.get("wave_id")))
        if folder.is_dir():
            write_json_atomic(folder / "report.json", report)
    except (TidegateError, ValueError) as error:
        to_stderr().say(f"the report is not kept: {error}")
    return report


def _repository(args: argparse.Namespace, elsewhere: Sequence[Path]) -> Path | None:
    """The repository asked for, or the current folder's, or that of a folder `elsewhere`."""
    environ = process_environment()
    if args.repo:
        return open_repository(Path(args.repo), environ).top
    return cycle.repository_in_sight((Path.cwd(), *elsewhere))


def _settings(args: argparse.Namespace, repo: Path | None) -> Settings:
    return load_settings(
        project=repo or Path.cwd(),
        config=Path(args.config) if args.config else None,
        flags={
            "backend.name": args.driver,
            "state_dir": args.state_dir,
            "limits.max_workers": args.max_workers,
        },
    )


def _bounded(args: argparse.Namespace, manifest: Any) -> Any:
    """With --one-turn every item gets no repair round."""
    if not args.one_turn or not isinstance(manifest, dict):
        return manifest
    items = manifest.get("items")
    if not isinstance(items, list):
        return manifest
    return {
        **manifest,
        "items": [{**i, "repairCap": 0} if isinstance(i, dict) else i for i in items],
    }


def _emit(report: Mapping[str, Any], output: str | None) -> int:
    """Write the report where it belongs. A wave's own exit code is never made less of; a report
    that is asked for and lost is a failure too."""
    code = int(report.get("exit_code", 0 if report.get("success", True) else 1))
    text = json.dumps(report, indent=2) + "\n"
    if output:
        try:
            write_text_atomic(Path(output), text)
        except TidegateError as error:
            to_stderr().say(f"--output: {error}")
            _to_stdout(text)
            return code or int(error.exit_code)
        to_stderr().say(f"report written to {output}")
        return code
    lost = _to_stdout(text)
    return code or lost


def _to_stdout(text: str) -> int:
    """0, or the exit code for a full disk; a reader that went away wants no report."""
    if sys.stdout is None:
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        # Keep the interpreter from complaining again while it shuts down.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
        if isinstance(error, OSError) and not isinstance(error, BrokenPipeError):
            why = error.strerror or error
            to_stderr().say(f"the report cannot be written to stdout: {why}")
            return int(ExitCode.CANNOT_RUN_HERE)
    return 0
