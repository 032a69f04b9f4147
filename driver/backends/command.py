"""The backend for any agent program that reads a prompt from stdin and edits files in place.

Passes variables, arguments, prompt file and usage file to the program, and reads the usage file.
`other_clis` parses the output of known programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Unpack

from driver.backend_api.driver import (
    FAILURE_COULD_NOT_RUN,
    ROLE_WORKER,
    AgentDriver,
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
from driver.backends.backend_settings import Environ, given, local_options, models_of
from driver.backends.cli.agent_reply import Reply, result_of
from driver.backends.cli.endings import not_run, printed_lines
from driver.backends.cli.json_output import bytes_of, read_verdict, text_lines
from driver.backends.cli.local_driver import (
    LocalDriver,
    LocalOptions,
    dispatch_folder,
    item_of,
    phase_of,
)
from driver.backends.cli.other_clis import READERS
from driver.execution.processes import Ending, Finished
from driver.filesystem.safe_file_access import replace_plain
from driver.homes.login import LoginFile
from state_store.documents.errors import InputError
from tools.settings.schema import BackendSettings

LAST_LINES = 5
# Logins and settings of known programs, in the home.
_RENEWED = {
    "opencode": (".local/share/opencode/auth.json",),
    "gemini": (".gemini/oauth_creds.json",),
}
_SETTINGS = {
    "opencode": (".config/opencode",),
    "gemini": (".gemini/google_accounts.json", ".gemini/settings.json", ".gemini/GEMINI.md"),
    "aider": (".aider.conf.yml", ".aider.model.settings.yml", ".aider.model.metadata.json"),
}
_NOT_FOUND = (126, 127)  # a shell's exit codes for a program that it could not start

# Placeholders in a command for values of a dispatch.
PROMPT_FILE = "{prompt_file}"
USAGE_FILE = "{usage_file}"
OWNED_FILES = "{owned_files}"
MODEL = "{model}"


class CommandDriver(LocalDriver):
    """Runs the configured command once per dispatch."""

    name = "command"
    encloses = True

    def __init__(
        self,
        command: Sequence[str],
        *,
        tier: int = 4,
        models: Mapping[str, str] | None = None,
        output: str | None = None,
        **options: Unpack[LocalOptions],
    ) -> None:
        """`output` names a parser of `other_clis.READERS`, if the program's output reports use and
        errors.

        Raises InputError if the command is empty or lacks a needed part.
        """
        if not command:
            raise InputError("the command backend needs [backend] command, a list of arguments")
        if MODEL in command and not (models or {}).get(ROLE_WORKER):
            raise InputError(f"[backend] command has {MODEL}: name a model with [backend] model")
        if output == "aider" and USAGE_FILE not in command:
            raise InputError(f"[backend] command of aider needs --analytics-log {USAGE_FILE}")
        super().__init__(**options)
        self.command = tuple(command)
        self._tier = tier
        self.model_map = dict(models or {})
        self._read = READERS[output] if output else None

    def probe_capabilities(self) -> DriverCapabilities:
        """Full access to the workspace; the quality of the work is unknown."""
        return DriverCapabilities(
            name=self.name,
            parallel_dispatch=True,
            worker_filesystem_access=True,
            worker_shell_access=True,
            recommended_verification_tier=self._tier,
            available_models=tuple(dict.fromkeys(self.model_map.values())),
            notes="any program; usage is known if it writes the usage file or output is named",
        )

    def command_line(self) -> tuple[str, ...]:
        """The configured command."""
        return self.command

    def readiness_problems(self) -> tuple[str, ...]:
        """The error message for a missing program, also for a program behind `env`."""
        programs = [self.command[0]]
        if Path(self.command[0]).name == "env":
            programs += islice((word for word in self.command[1:] if "=" not in word), 1)
        return tuple(self._missing(name) for name in programs if not self.find_program(name))

    def login_files(self) -> tuple[LoginFile, ...]:
        """The account and the settings of a known program, and what the settings name."""
        name = Path(self.command[0]).name
        renewed = (self.login_file(one, is_renewed=True) for one in _RENEWED.get(name, ()))
        others = (self.login_file(one) for one in _SETTINGS.get(name, ()))
        return (*renewed, *others, *super().login_files())

    def answer(self, worker_id: str, request: WorkerRequest) -> WorkerResult:
        """Run the program once. Its exit code and, for a known program, its output decide."""
        program = self.find_program(self.command[0])
        if program is None:
            return not_run(worker_id, FAILURE_COULD_NOT_RUN, self._missing(self.command[0]))
        model = request.model or self.resolve_model(request.role)
        with dispatch_folder(request) as folder:
            prompt_file, usage_file = folder / "prompt.txt", folder / "usage.json"
            verdict_file = folder / "verdict.json"
            prompt = request.full_prompt.encode("utf-8", "replace")
            replace_plain(folder.parent, f"{folder.name}/{prompt_file.name}", prompt)
            usage_file.unlink(missing_ok=True)
            verdict_file.unlink(missing_ok=True)
            variables = {
                "TIDEGATE_ITEM": item_of(request),
                "TIDEGATE_PHASE": phase_of(request),
                "TIDEGATE_PROMPT_FILE": str(prompt_file.absolute()),
                "TIDEGATE_USAGE_FILE": str(usage_file.absolute()),
            }
            if model:
                variables["TIDEGATE_MODEL"] = model
            if request.result_schema:
                variables["TIDEGATE_VERDICT_FILE"] = str(verdict_file.absolute())
            argv = (program, *self._arguments(variables, request.owned_files))
            finished = self.run_agent(worker_id, request, argv, folder, variables)
            reply = self._reply(finished, usage_file)
            result = result_of(worker_id, finished, reply, "the agent")
            if request.result_schema:
                result.structured, warning = read_verdict(verdict_file)
                result.text += f"\nwarning: {warning}" if warning else ""
                result.error = result.error or warning or None
        result.model = model or None
        return result

    def _arguments(self, variables: Mapping[str, str], owned_files: Sequence[str]) -> Iterator[str]:
        """The arguments of the program. Only whole arguments are placeholders, so braces in a
        script stay unchanged."""
        values = {
            PROMPT_FILE: variables["TIDEGATE_PROMPT_FILE"],
            USAGE_FILE: variables["TIDEGATE_USAGE_FILE"],
            MODEL: variables.get("TIDEGATE_MODEL", ""),
        }
        for word in self.command[1:]:
            if word == OWNED_FILES:
                # A name such as "-x" must not become an option.
                yield from (f"./{name}" if name.startswith("-") else name for name in owned_files)
            else:
                yield values.get(word, word)

    def _reply(self, finished: Finished, usage_file: Path) -> Reply:
        if self._read is None:
            usage, warning = read_usage(usage_file)
            text = finished.stdout.strip()
            text = f"{text}\nwarning: {warning}".strip() if warning else text
            told_nothing = usage.total_tokens == 0 and not usage.known_usd
            worked = finished.exit_code not in _NOT_FOUND and not told_nothing
            if finished.ending is not Ending.EXITED:  # the use so far is a lower bound
                usage = with_least(Usage(), [usage])
            return Reply(text=text, usage=usage, fault=_used_up(finished), worked=worked)
        reply = self._read(printed_lines(finished), text_lines(usage_file, MAX_USAGE_BYTES))
        if finished.ending is not Ending.EXITED:  # the use so far is a lower bound
            return replace(reply, usage=with_least(Usage(), [reply.usage]))
        if not reply.started:
            return replace(reply, usage=NOTHING_SPENT)
        now = datetime.now().astimezone()
        fault = fault_in(reply.error, now, status=reply.status) if reply.error else None
        return replace(reply, fault=fault)

    def _missing(self, program: str) -> str:
        return (
            f"the agent program {program!r} was not found on PATH or under {self.base}; "
            "install it, or set [backend] command to its full path"
        )


def from_settings(backend: BackendSettings, environ: Environ) -> AgentDriver:
    """The driver for `[backend]` of the settings. Raises InputError for what is missing."""
    return CommandDriver(
        (*backend.command, *backend.extra_args) if backend.command else (),
        models=models_of(backend),
        output=backend.output,
        **local_options(backend, environ),
        **given(tier=backend.tier),
    )


def read_usage(path: Path) -> tuple[Usage, str]:
    """The use in a program's usage file, and a warning if it is not credible.

    A missing file means unknown use, without a warning. A malformed file means unknown use, never
    zero.
    """
    try:
        return parse_usage(bytes_of(path, MAX_USAGE_BYTES)), ""
    except FileNotFoundError:
        return Usage(), ""
    except BadUsageError as error:
        return error.known, f"the usage file cannot be used completely ({error})"
    except (OSError, ValueError) as error:
        return Usage(), f"the usage file cannot be used ({error}); usage is unknown"


def _used_up(finished: Finished) -> ProviderFault | None:
    # From the last lines of an unknown program only this is read: other text that looks like a
    # provider's fault may be about its work.
    if finished.ending is not Ending.EXITED or finished.exit_code == 0:
        return None
    for printed in (finished.stderr, finished.stdout):
        last = "\n".join(printed.strip().splitlines()[-LAST_LINES:])
        if (fault := used_up_in(last, datetime.now().astimezone())) is not None:
            return fault
    return None
