"""Asks test runners for reports of their own, and reads them after the run.

A report is there although the output is hidden, redirected or printed twice. It is written to a
named pipe, because the runners that a command calls one after another write to the same name. The
pipe has a random name outside of the checkout. A runner is asked by a variable, or by arguments at
the end of the command. A project that makes such a report itself, or whose run breaks because of
it, is not asked.
"""

from __future__ import annotations

import os
import re
import selectors
import shlex
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from driver.execution.worker_pool import BackgroundTask
from driver.filesystem.safe_file_access import regular_bytes
from driver.runners.result import Counts, read_junit
from driver.runners.runner import Report, Runner
from driver.runners.table import RUNNERS, call_of, find_call, runner_of, runners_named
from driver.test_command.build_scripts import MAKEFILES, PACKAGE
from driver.test_command.invocations import Command

MAX_BYTES = 2**25
_BLOCK = 2**16
_MAX_SCRIPT_BYTES = 2**20
_BUILD_FILES = (*MAKEFILES, PACKAGE, "noxfile.py", "justfile", "Justfile")
_NOT_SEARCHED = (".git", "node_modules", "src", ".venv")
_DOCUMENT = re.compile(r"(?=<\?xml )")
_JSON_DOCUMENT = re.compile(r'(?<=\})\s*(?=\{"num[A-Z])')


class Reports:
    """The reports of one run of `command` in `folder`; `place` is a name for their folder. Use it
    as a context. `command` and `environment` are those of the run, with the request for reports."""

    def __init__(
        self, command: Command, folder: Path, environment: Mapping[str, str], place: Path
    ) -> None:
        self.command = command
        self.environment = dict(environment)
        self._folder = folder
        self._place = place
        self._pipes: dict[str, _Pipe] = {}
        named = runners_named(command)
        self._runners = [one for one in RUNNERS.values() if not named or one.name in named]
        self._begun = 0
        with suppress(OSError):
            place.mkdir()
            self._begun = place.stat().st_mtime_ns
            for runner in self._runners:
                if runner.report and hasattr(os, "mkfifo") and self._is_asked(runner, command):
                    self._ask(runner.name, runner.report)

    def __enter__(self) -> Reports:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes.values():
            pipe.close()
        shutil.rmtree(self._place, ignore_errors=True)

    @property
    def asked(self) -> bool:
        """True if the command or the environment has a request."""
        return bool(self._pipes)

    def read(self) -> dict[str, tuple[Counts, ...]]:
        """The counts of the reports of each runner, after the run. A runner is missing if one of
        its reports is damaged."""
        found = {}
        for runner in self._runners:
            with suppress(ValueError, OSError):
                texts = self._texts(runner)
                read = runner.report.read if runner.report else read_junit
                if parts := tuple(read(runner.name, text) for text in texts):
                    found[runner.name] = parts
        return found

    def without_notices(self, text: str) -> str:
        """An output without the lines that tell of a report."""
        for name in self._pipes:
            report = RUNNERS[name].report
            if report and self._place.name in text:  # runners may print a relative path
                path = rf"\S*{re.escape(f'{self._place.name}/{report.name}')}"
                text = re.sub(report.notice.format(path=path), "", text, flags=re.M)
                # Package managers print the command that they run.
                path = re.escape(str(self._place / report.name))
                words = (one.replace("{path}", path) for one in report.options.split())
                text = re.sub("".join(rf" ['\"]?{word}['\"]?" for word in words), "", text)
        return text

    def broke(self, output: str) -> bool:
        """True if a red run may be red because of the request: its output, without notices, has the
        name of a report, or the runner knows no such report."""
        broken = (RUNNERS[name].report for name in self._pipes)
        return any(
            self._place.name in output or re.search(report.broken, output)
            for report in broken
            if report
        )

    def _is_asked(self, runner: Runner, command: Command) -> bool:
        """True if the command, its settings or its scripts name the runner, and none of its own
        settings such a report. Else the request would only tell code that it is under test."""
        report = runner.report
        assert report is not None
        words = command.split() if isinstance(command, str) else command
        own = [" ".join(words), self.environment.get(report.variable, "")]
        own += map(self._text, report.configs)
        call = None if report.variable else call_of(command, "", self._text)
        own += [" ".join(call.words)] if call else []
        if any(re.search(report.rival, text) for text in own):
            return False
        if not report.variable:
            return call is not None and runner_of(call.words) == runner.name
        scripts = (self._text(name) for name in (*_BUILD_FILES, *words))
        name = re.compile(rf"(?<![\w-]){runner.name}(?![\w-])")
        return any(name.search(text) for text in (*own, *scripts))

    def _text(self, name: str) -> str:
        """The text of a file of the project, "" for none."""
        path = self._folder / name
        with suppress(OSError, ValueError):
            if path.is_file() and path.stat().st_size <= _MAX_SCRIPT_BYTES:
                return regular_bytes(path, _MAX_SCRIPT_BYTES).decode("utf-8", "replace")
        return ""

    def _ask(self, name: str, report: Report) -> None:
        path = self._place / report.name
        if "$" in str(self._place):  # the runner would replace it
            return
        if not report.variable:
            call = call_of(self.command, "", self._text)
            more = call.with_more(*report.options.format(path=path).split()) if call else None
            if more is not None:
                self._pipes[name], self.command = _Pipe(path), more
            return
        self._pipes[name] = _Pipe(path)
        options = report.options.format(path=shlex.quote(str(path)))
        given = self.environment.get(report.variable, "")
        self.environment[report.variable] = f"{given} {options}".strip()

    def _texts(self, runner: Runner) -> list[str]:
        if runner.name in self._pipes:
            text = self._pipes[runner.name].close().decode("utf-8", "replace")
            divide = _DOCUMENT if not text.startswith("{") else _JSON_DOCUMENT
            return [part for part in divide.split(text) if part.strip()]
        if not any((self._folder / name).exists() for name in runner.built_by):
            return []
        return [
            regular_bytes(path, MAX_BYTES).decode("utf-8", "replace")
            for path in _written(self._folder, runner.report_files)
            if path.stat().st_mtime_ns >= self._begun
        ]


class _Pipe:
    """A named pipe that is read from now on, so that no writer waits."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path, 0o600)
        self._wake, self._waker = os.pipe()
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        self._reader: BackgroundTask[bytes] | None = BackgroundTask(self._read)
        self._found = b""

    def close(self) -> bytes:
        """Everything that was written; nothing if it is too long."""
        if self._reader is not None:
            os.close(self._waker)
            self._found, self._reader = self._reader.result(), None
            os.close(self._wake)
            os.close(self._pipe)
        return self._found

    def _read(self) -> bytes:
        kept, length, over = list[bytes](), 0, False
        with selectors.DefaultSelector() as ready:
            ready.register(self._pipe, selectors.EVENT_READ)
            ready.register(self._wake, selectors.EVENT_READ)
            while not over or length <= MAX_BYTES:
                files = {key.fd for key, _ in ready.select()}
                over = over or self._wake in files
                if self._pipe in files:
                    block = os.read(self._pipe, _BLOCK)
                    length += len(block)
                    kept = [*kept, block] if length <= MAX_BYTES else []
                elif over:
                    break
        return b"".join(kept)


def _written(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    """The regular files below a folder that match one of the patterns."""
    for top, folders, _ in os.walk(folder):
        folders[:] = [name for name in folders if name not in _NOT_SEARCHED]
        for pattern in patterns:
            if pattern.partition("/")[0] in folders:
                found = Path(top).glob(pattern)
                yield from (one for one in found if one.is_file() and not one.is_symlink())


def counting(command: Command) -> Command:
    """The command with arguments with which its runner prints its tests, if it needs them."""
    call = find_call(command)
    runner = RUNNERS.get(runner_of(call.words)) if call else None
    if call is None or runner is None or not runner.counting:
        return command
    if any(
        word.partition("=")[0].replace("--", "-") in runner.counting_already for word in call.words
    ):
        return command
    return call.with_more(*runner.counting) or command
