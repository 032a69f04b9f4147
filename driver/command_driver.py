"""The backend for any agent program: prompt on stdin, files changed in place, exit code at the end.

Owns what such a program is told (variables and files) and how its usage and verdict files are read.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from driver.agent_cli import (
    DEFAULT_RETRIES,
    DEFAULT_TIMEOUT_S,
    NOTHING_SPENT,
    AgentCall,
    LocalDriver,
    broken_off,
    dispatch_folder,
    item_of,
    not_run,
    phase_of,
    silence_of,
    tail,
)
from driver.agent_driver import (
    FAILURE_AGENT,
    FAILURE_COULD_NOT_RUN,
    FAILURE_NONE,
    ROLE_WORKER,
    DriverCapabilities,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.fault_words import used_up_in
from driver.process import Ending, Finished
from driver.provider_fault import ProviderFault
from driver.usage import MAX_USAGE_BYTES, parse_usage
from state_store import strict_json
from state_store.errors import InputError

LAST_LINES = 5
MAX_VERDICT_BYTES = 2**20


class CommandDriver(LocalDriver):
    """Runs the command given in the settings once per dispatch."""

    name = "command"

    def __init__(  # noqa: PLR0913 - keyword settings of one backend
        self,
        command: Sequence[str],
        *,
        tier: int = 4,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        stall_s: float | None = None,
        retries: int = DEFAULT_RETRIES,
        env: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
        models: Mapping[str, str] | None = None,
        base: Path | None = None,
    ) -> None:
        """`base` is where a relative program is looked for, by default the current folder.

        Raises InputError when the command is empty.
        """
        if not command:
            raise InputError("the command backend needs [backend] command, a list of arguments")
        super().__init__(
            environ=environ, env=env, timeout_s=timeout_s, stall_s=stall_s, retries=retries
        )
        self.command = tuple(command)
        self._tier = tier
        self._models = dict(models or {})
        self._base = base or Path.cwd()

    def probe_capabilities(self) -> DriverCapabilities:
        """Full access to the workspace; nothing is known of how well the program works."""
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            worker_shell_access=True,
            recommended_verification_tier=self._tier,
            available_models=tuple(dict.fromkeys(self._models.values())),
            notes="any program; usage is known only where it writes the usage file",
        )

    def resolve_model(self, role: str) -> str:
        """The model named in the settings, "" where none is."""
        return self._models.get(role) or self._models.get(ROLE_WORKER, "")

    def command_line(self) -> tuple[str, ...]:
        """The command as the settings give it."""
        return self.command

    def readiness_problems(self) -> tuple[str, ...]:
        """Says so when the program is missing."""
        return () if self._program() else (self._missing(),)

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run the program once; its exit code alone says whether it worked."""
        program = self._program()
        if program is None:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, self._missing())
        model = request.model or self.resolve_model(request.role)
        with dispatch_folder(request) as folder:
            prompt_file, usage_file = folder / "prompt.txt", folder / "usage.json"
            prompt_file.write_bytes(request.prompt.encode("utf-8", "replace"))
            verdict_file = folder / "verdict.json" if request.result_schema else None
            for told in (usage_file, *([verdict_file] if verdict_file else [])):
                told.unlink(missing_ok=True)
            extra = {
                "TIDEGATE_ITEM": item_of(request),
                "TIDEGATE_PHASE": phase_of(request),
                "TIDEGATE_PROMPT_FILE": str(prompt_file.absolute()),
                "TIDEGATE_USAGE_FILE": str(usage_file.absolute()),
                **({"TIDEGATE_MODEL": model} if model else {}),
                **({"TIDEGATE_VERDICT_FILE": str(verdict_file.absolute())} if verdict_file else {}),
            }
            call = AgentCall((program, *self.command[1:]), folder, extra=extra)
            finished = self.run_agent(worker_id, request, call)
            usage, warning = read_usage(usage_file)
            structured, problem = read_verdict(verdict_file) if verdict_file else (None, "")
        warnings = "\nwarning: ".join(filter(None, (warning, problem)))
        result = _result(worker_id, finished, usage, warnings)
        result.model, result.structured = model or None, structured
        return result

    def _program(self) -> str | None:
        return self.find_program(self.command[0], self._base)

    def _missing(self) -> str:
        return (
            f"the agent program {self.command[0]!r} was not found on PATH or under {self._base}; "
            "install it, or set [backend] command to its full path"
        )


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
    except (OSError, ValueError) as error:
        return Usage(), f"the usage file cannot be used ({error}); usage is unknown"


def read_verdict(path: Path) -> tuple[dict[str, Any] | None, str]:
    """The object that a program was asked to write, and a warning when what it wrote is none."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None, "the verdict file is not a regular file"
        with path.open("rb") as file:
            content = file.read(MAX_VERDICT_BYTES + 1)
        if len(content) > MAX_VERDICT_BYTES:
            return None, f"the verdict file is larger than {MAX_VERDICT_BYTES} bytes"
        found = strict_json.parse(content.decode("utf-8"))
    except FileNotFoundError:
        return None, "there is no verdict file"
    except (OSError, ValueError) as error:
        return None, f"the verdict file cannot be used ({error})"
    return (found, "") if isinstance(found, dict) else (None, "the verdict file holds no object")


def _result(worker_id: str, finished: Finished, usage: Usage, warning: str) -> WorkerResult:
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
