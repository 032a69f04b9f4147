"""What both programs do around a wave: settings, signals, one JSON report, the exit code."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from driver import wave_loop, wave_scheduler
from driver.backend_config import driver_from
from driver.dry_run import describe_dry_run
from driver.git import exclude_from_status, open_repository, toplevel_of
from driver.progress import to_stderr
from driver.recording import RecordingWriter
from driver.stop import Stop, listening
from driver.wave_context import WaveOptions
from state_store.errors import ExitCode, InputError, TidegateError
from state_store.files import write_text_atomic
from state_store.json_document import read_json
from tools.settings import Settings, process_environment
from tools.settings import load as load_settings

Job = Callable[[argparse.Namespace, Stop], dict[str, Any]]


def run_manifest(args: argparse.Namespace) -> int:
    """`wave_loop.py`."""
    return _program(args, _manifest_report)


def run_cycle(args: argparse.Namespace) -> int:
    """`wave_scheduler.py`."""
    return _program(args, _cycle_report)


def _program(args: argparse.Namespace, job: Job) -> int:
    try:
        with listening(Stop()) as stop:
            report = _demo_report(args, stop) if args.demo is not None else job(args, stop)
    except TidegateError as error:
        report = {"success": False, "error": str(error), "exit_code": int(error.exit_code)}
    if report.get("error"):
        to_stderr().say(str(report["error"]))
    return _emit(report, args.output)


def _demo_report(args: argparse.Namespace, stop: Stop) -> dict[str, Any]:
    from driver import demo  # noqa: PLC0415 - only the demo needs its files

    folder = demo.make(Path(args.demo) if args.demo else None)
    report = _cycle_report(demo.arguments(args, folder), stop)
    for line in demo.farewell(folder, report):
        to_stderr().say(line)
    return report


def _manifest_report(args: argparse.Namespace, stop: Stop) -> dict[str, Any]:
    if not args.manifest:
        raise InputError("--manifest is missing: name the JSON file with the wave's items")
    manifest = read_json(Path(args.manifest), "manifest").value
    repo = _repository(args)
    settings = _settings(args, repo)
    driver = driver_from(settings.backend, settings.environ)
    if args.dry_run:
        return {**describe_dry_run(driver, _bounded(args, manifest)), "exit_code": 0}
    _prepare_state(settings.state_dir, repo, settings.environ)
    return wave_loop.run_wave(
        driver,
        _bounded(args, manifest),
        state_dir=settings.state_dir,
        git={"expectTopLevel": str(repo) if repo else None, "mode": "branch"} if args.git else None,
        options=_options(args, settings, repo, stop),
    )


def _cycle_report(args: argparse.Namespace, stop: Stop) -> dict[str, Any]:
    repo = _repository(args)
    settings = _settings(args, repo)
    dry = args.dry_run or not args.execute
    if not dry:
        _prepare_state(settings.state_dir, repo, settings.environ)
    return wave_scheduler.run_wave_scheduler(
        args.tracker or settings.state_dir / "tracker.json",
        max_items=args.max_items,
        dry_run=dry,
        driver=driver_from(settings.backend, settings.environ),
        state_dir=settings.state_dir,
        options=_options(args, settings, repo, stop),
    )


def _repository(args: argparse.Namespace) -> Path | None:
    """The top of the repository asked for, or of the current folder's; None outside of any."""
    environ = process_environment()
    if args.repo:
        return open_repository(Path(args.repo), environ).top
    return toplevel_of(Path.cwd(), environ)


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


def _options(
    args: argparse.Namespace, settings: Settings, repo: Path | None, stop: Stop
) -> WaveOptions:
    recording = RecordingWriter(Path(args.record)) if args.record and not args.dry_run else None
    return WaveOptions(
        settings=settings, repo=repo, recording=recording, progress=to_stderr(), stop=stop
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


def _prepare_state(state_dir: Path, repo: Path | None, environ: Mapping[str, str]) -> None:
    """Make the state folder, and keep it out of the repository it may lie in."""
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--state-dir {state_dir}: cannot be made: {error.strerror}") from error
    if repo is not None and state_dir.resolve().is_relative_to(repo.resolve()):
        inside = state_dir.resolve().relative_to(repo.resolve()).as_posix()
        exclude_from_status(open_repository(repo, environ), f"/{inside}/")


def _emit(report: Mapping[str, Any], output: str | None) -> int:
    """Write the report where it belongs; the exit code stays the wave's own."""
    code = int(report.get("exit_code", 0 if report.get("success", True) else 1))
    text = json.dumps(report, indent=2) + "\n"
    if output:
        try:
            write_text_atomic(Path(output), text)
        except OSError as error:
            to_stderr().say(f"--output {output}: cannot be written: {error.strerror}")
            return code or int(ExitCode.BAD_INPUT)
        to_stderr().say(f"report written to {output}")
        return code
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError):
        # Nobody reads it: keep the interpreter from complaining again while it shuts down.
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123
    return code
