"""The backend for any agent program: prompt on stdin, files changed in place, exit code at the end.

Owns what such a program is told (variables, arguments, prompt and usage files) and how its usage
file is read. What programs of known names print is read by `cli_usage`.
"""

from __future__ import annotations

import io
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Unpack

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_NONE,
    ROLE_WORKER,
    DriverCapabilities,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.fault_words import fault_in, used_up_in
from driver.backend_api.provider_fault import ProviderFault
from driver.backend_api.usage import (
    MAX_USAGE_BYTES,
    NOTHING_SPENT,
    BadUsageError,
    parse_usage,
    with_least,
)
from driver.backends.cli.endings import broken_off, not_run, printed_lines, silence_of, tail
from driver.backends.cli.json_output import read_verdict
from driver.backends.cli.local_driver import (
    AgentCall,
    LocalDriver,
    LocalOptions,
    dispatch_folder,
    item_of,
    phase_of,
)
from driver.backends.cli.other_clis import READERS, CliReport, Printed
from driver.execution.processes import Ending, Finished
from state_store.documents.errors import InputError

LAST_LINES = 5

# Words of a command that stand for what only a dispatch knows.
PROMPT_FILE = "{prompt_file}"
USAGE_FILE = "{usage_file}"
OWNED_FILES = "{owned_files}"
MODEL = "{model}"


class CommandDriver(LocalDriver):
    """Runs the command given in the settings once per dispatch."""

    name = "command"

    def __init__(
        self,
        command: Sequence[str],
        *,
        tier: int = 4,
        models: Mapping[str, str] | None = None,
        output: str | None = None,
        **options: Unpack[LocalOptions],
    ) -> None:
        """`output` is a name of `cli_usage.READERS` when the program's output tells its use and
        its errors.

        Raises InputError when the command is empty or lacks what its words or its reader need.
        """
        if not command:
            raise InputError("the command backend needs [backend] command, a list of arguments")
        if MODEL in command and not (models or {}).get(ROLE_WORKER):
            raise InputError(f"[backend] command has {MODEL}: name one with [backend] model")
        if output == "aider" and USAGE_FILE not in command:
            raise InputError(f"[backend] command of aider needs --analytics-log {USAGE_FILE}")
        super().__init__(**options)
        self.command = tuple(command)
        self._tier = tier
        self._models = dict(models or {})
        self._read = READERS[output] if output else None

    def probe_capabilities(self) -> DriverCapabilities:
        """Full access to the workspace; nothing is known of how well the program works."""
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            worker_shell_access=True,
            recommended_verification_tier=self._tier,
            available_models=tuple(dict.fromkeys(self._models.values())),
            notes="any program; usage is known where it writes the usage file or output is named",
        )

    def resolve_model(self, role: str) -> str:
        """The model named in the settings, "" where none is."""
        return self._models.get(role) or self._models.get(ROLE_WORKER, "")

    def command_line(self) -> tuple[str, ...]:
        """The command as the settings give it."""
        return self.command

    def readiness_problems(self) -> tuple[str, ...]:
        """Says so when the program is missing, also the one that `env` is to start."""
        missing = (name for name in self._programs() if not self.find_program(name))
        return tuple(self._missing(name) for name in missing)

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run the program once; its exit code, and its reader if it has one, say how that went."""
        program = self.find_program(self.command[0])
        if program is None:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, self._missing(self.command[0]))
        model = request.model or self.resolve_model(request.role)
        with dispatch_folder(request) as folder:
            prompt_file, usage_file = folder / "prompt.txt", folder / "usage.json"
            prompt_file.write_bytes(request.prompt.encode("utf-8", "replace"))
            usage_file.unlink(missing_ok=True)
            asked = bool(request.result_schema)
            verdict_file = folder / "verdict.json"
            verdict_file.unlink(missing_ok=True)
            told = _Told(
                str(prompt_file.absolute()),
                str(usage_file.absolute()),
                model,
                str(verdict_file.absolute()) if asked else "",
            )
            argv = (program, *told.arguments(self.command[1:], request.owned_files))
            call = AgentCall(argv, folder, extra=told.variables(request))
            finished = self.run_agent(worker_id, request, call)
            result = self._result(worker_id, finished, usage_file)
            if asked:
                result.structured, warning = read_verdict(verdict_file)
                result.text += f"\nwarning: {warning}" if warning else ""
                result.error = result.error or warning or None
        result.model = model or None
        return result

    def _result(self, worker_id: str, finished: Finished, usage_file: Path) -> WorkerResult:
        if self._read is None:
            return _plain_result(worker_id, finished, *read_usage(usage_file))
        with _opened(usage_file) as file:
            lines = iter(partial(file.readline, MAX_USAGE_BYTES), "")
            report = self._read(Printed(printed_lines(finished), lines))
        if finished.ending is not Ending.EXITED:  # what it had told until then is the least
            return _plain_result(worker_id, finished, with_least(Usage(), [report.usage]), "")
        return _reported_result(worker_id, finished, report)

    def _programs(self) -> Iterator[str]:
        yield self.command[0]
        if Path(self.command[0]).name == "env":
            yield from islice((word for word in self.command[1:] if "=" not in word), 1)

    def _missing(self, program: str) -> str:
        return (
            f"the agent program {program!r} was not found on PATH or under {self.base}; "
            "install it, or set [backend] command to its full path"
        )


@dataclass(frozen=True, slots=True)
class _Told:
    """What a program is told of its dispatch, by variables and by the words of its command."""

    prompt_file: str
    usage_file: str
    model: str
    verdict_file: str = ""

    def variables(self, request: WorkerRequest) -> dict[str, str]:
        return {
            "TIDEGATE_ITEM": item_of(request),
            "TIDEGATE_PHASE": phase_of(request),
            "TIDEGATE_PROMPT_FILE": self.prompt_file,
            "TIDEGATE_USAGE_FILE": self.usage_file,
            **({"TIDEGATE_MODEL": self.model} if self.model else {}),
            **({"TIDEGATE_VERDICT_FILE": self.verdict_file} if self.verdict_file else {}),
        }

    def arguments(self, words: Sequence[str], owned_files: Sequence[str]) -> Iterator[str]:
        """Only whole words are replaced, so that no brace of a script is taken for one of ours."""
        put = {PROMPT_FILE: self.prompt_file, USAGE_FILE: self.usage_file, MODEL: self.model}
        for word in words:
            if word == OWNED_FILES:
                # A name such as "-x" must not become an option.
                yield from (f"./{name}" if name.startswith("-") else name for name in owned_files)
            else:
                yield put.get(word, word)


def read_usage(path: Path) -> tuple[Usage, str]:
    """What a program says it used, and a warning when that cannot be believed.

    An absent file is unknown use without a warning; a malformed one is unknown use, never zero.
    """
    try:
        # The agent chose what lies here: a pipe or a device must not hold us up.
        if not stat.S_ISREG(path.lstat().st_mode):
            return Usage(), "the usage file is not a regular file; usage is unknown"
        with path.open("rb") as file:
            content = file.read(MAX_USAGE_BYTES + 1)
        return parse_usage(content), ""
    except FileNotFoundError:
        return Usage(), ""
    except BadUsageError as error:
        return error.known, f"the usage file cannot be used as a whole ({error})"
    except (OSError, ValueError) as error:
        return Usage(), f"the usage file cannot be used ({error}); usage is unknown"


def _opened(path: Path) -> IO[str]:
    """A usage file to read lines from; an empty one where there is no regular file."""
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return path.open(encoding="utf-8", errors="replace")
    except OSError:  # what cannot be read tells nothing
        pass
    return io.StringIO()


def _reported_result(worker_id: str, finished: Finished, report: CliReport) -> WorkerResult:
    fault = None
    if report.error:
        fault = fault_in(report.error, datetime.now().astimezone(), status=report.status)
    failure, error = _judged(finished, report)
    return WorkerResult(
        worker_id,
        ok=failure == FAILURE_NONE,
        text=report.text,
        error=error or None,
        failure=FAILURE_COULD_NOT_RUN if fault else failure,
        fault=fault,
        usage=report.usage if report.started else NOTHING_SPENT,
    )


def _judged(finished: Finished, report: CliReport) -> tuple[str, str]:
    if report.error:
        return FAILURE_AGENT, f"the agent reports: {tail(report.error)}"
    said = tail(finished.stderr) or tail(finished.stdout) or "no output"
    if not report.started:
        why = f"the agent did not begin (exit {finished.exit_code}): {said}"
        return FAILURE_COULD_NOT_RUN, why
    if not report.finished:
        why = f"the agent did not say that it is done (exit {finished.exit_code}): {said}"
        return FAILURE_AGENT, why
    return _exit(finished)


def _plain_result(worker_id: str, finished: Finished, usage: Usage, warning: str) -> WorkerResult:
    fault = silence_of(finished) or _used_up(finished)
    failure, error = broken_off(finished) or _exit(finished)
    if fault is not None:
        failure = FAILURE_COULD_NOT_RUN
    never_ran = finished.ending is Ending.COULD_NOT_START
    text = finished.stdout.strip()
    return WorkerResult(
        worker_id,
        ok=failure == FAILURE_NONE,
        text=f"{text}\nwarning: {warning}".strip() if warning else text,
        error=error or None,
        failure=failure,
        fault=fault,
        usage=NOTHING_SPENT if never_ran else usage,
    )


def _used_up(finished: Finished) -> ProviderFault | None:
    # Of an unknown program only this is read from its last lines: what else looks like a fault of
    # its provider may be what the work is about.
    if finished.ending is not Ending.EXITED or finished.exit_code == 0:
        return None
    for printed in (finished.stderr, finished.stdout):
        last = "\n".join(printed.strip().splitlines()[-LAST_LINES:])
        if (fault := used_up_in(last, datetime.now().astimezone())) is not None:
            return fault
    return None


def _exit(finished: Finished) -> tuple[str, str]:
    if finished.exit_code == 0:
        return FAILURE_NONE, ""
    said = tail(finished.stderr) or tail(finished.stdout) or "no output"
    return FAILURE_AGENT, f"agent exited with {finished.exit_code}: {said}"
