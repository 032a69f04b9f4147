"""What every backend of ours promises. A binding says how to make a driver that follows a plan."""

from __future__ import annotations

import json
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from driver.backend_api.driver import (
    FAILURE_AGENT,
    FAILURE_CANCELLED,
    FAILURE_COULD_NOT_RUN,
    FAILURE_NONE,
    FAILURE_TIMED_OUT,
    CommandLimits,
    Usage,
    WorkerRequest,
    WorkerResult,
)
from driver.backend_api.provider_fault import FaultKind
from driver.backends.cli.local_driver import LocalDriver
from tests.support.interpreter import PYTHON
from tests.support.processes import eventually, patient

USED = Usage(120, 30, 0.25)
SECRET = "sk-of-the-parent"
PARENT = {
    "PATH": str(Path(sys.executable).parent),
    "OPENAI_API_KEY": SECRET,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "IS_SANDBOX": "yes",
}

LASTING = (
    FaultKind.BAD_KEY,
    FaultKind.NO_CREDIT,
    FaultKind.UNKNOWN_MODEL,
    FaultKind.USAGE_LIMIT,
)
PASSING = (FaultKind.OVERLOADED, FaultKind.RATE_LIMITED)

# What a fake agent of any kind does before it speaks its own protocol.
ACT = """
import json, os, sys, time
from pathlib import Path
plan = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
prompt = sys.stdin.buffer.read()
seen = {"env": dict(os.environ), "cwd": os.getcwd(), "argv": sys.argv[1:]}
Path(plan["seen"]).write_text(json.dumps(seen), encoding="utf-8")
Path(plan["prompt"]).write_bytes(prompt)
while plan["hangs"]:
    time.sleep(0.05)
runs = Path(__file__).with_suffix(".runs")
with runs.open("a") as file:
    file.write("x")
if runs.stat().st_size <= plan["fault_times"]:
    print("\\n".join(plan["fault_lines"]), flush=True)
    sys.exit(1)
for name, text in plan["files"].items():
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")
"""


@dataclass(frozen=True)
class Plan:
    """What the agent behind the driver is to do.

    Its provider gives `fault` in place of the first `fault_times` answers.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    usage: Usage | None = USED
    fails: bool = False
    hangs: bool = False
    fault: FaultKind | None = None
    fault_times: int = 0


@dataclass
class Place:
    """Where one test's agent works, and where it leaves what it saw."""

    root: Path

    def __post_init__(self) -> None:
        self.workspace.mkdir()

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def seen_file(self) -> Path:
        return self.root / "seen.json"

    @property
    def prompt_file(self) -> Path:
        return self.root / "prompt.bin"

    @property
    def environment(self) -> dict[str, str]:
        return json.loads(self.seen_file.read_text(encoding="utf-8"))["env"]

    def request(self, prompt: str = "Do it.", **changes: object) -> WorkerRequest:
        request = WorkerRequest(
            prompt=prompt,
            workdir=str(self.workspace),
            owned_files=("old.txt", "new/deep.txt", "a.txt"),
            label="dispatch:item-1",
            scratch=self.root / "scratch",
            environment={"TIDEGATE_ITEM": "item-1", "TIDEGATE_PHASE": "build"},
        )
        for name, value in changes.items():
            setattr(request, name, value)
        return request

    def program(self, plan: Plan, speech: str, **more: object) -> tuple[str, ...]:
        """A fake agent as arguments: acts by the plan, then runs the code in `speech`.

        With a fault in the plan it prints `fault_lines` and ends, as often as that strikes.
        """
        script = self.root / "fake_agent.py"
        script.write_text(ACT + speech, encoding="utf-8")
        acts = {"files": dict(plan.files), "hangs": plan.hangs, "fails": plan.fails}
        acts |= {"fault_times": plan.fault_times, "fault_lines": []}
        left = {"seen": str(self.seen_file), "prompt": str(self.prompt_file)}
        content = json.dumps({**acts, **left, **more})
        script.with_suffix(".json").write_text(content, encoding="utf-8")
        return *PYTHON, str(script)


def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    assert eventually(condition, within_s), "the condition did not come true"


class DriverContract(ABC):
    """The rules for every adapter.

    A binding adds the classes below that fit it. That work outside an item's files never ships is
    the engine's promise, for all of them; see tests/attacks/test_out_of_bounds.py.
    """

    WORKS_ON_FILES: ClassVar = True

    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return Place(tmp_path)

    @abstractmethod
    def driver(self, place: Place, plan: Plan, **options: object) -> LocalDriver:
        """A driver whose agent follows the plan; options are keywords of the adapter."""

    def test_it_changes_a_file_and_creates_one_in_a_new_folder(self, place: Place) -> None:
        (place.workspace / "old.txt").write_text("before", encoding="utf-8")
        plan = Plan(files={"old.txt": "after", "new/deep.txt": "h\u00e9llo"})
        result = self.driver(place, plan).dispatch_worker(place.request())
        assert (result.ok, result.failure, result.error) == (True, FAILURE_NONE, None)
        assert result.status == "done"
        assert (place.workspace / "old.txt").read_text(encoding="utf-8") == "after"
        assert (place.workspace / "new/deep.txt").read_text(encoding="utf-8") == "h\u00e9llo"

    def test_what_was_used_is_reported_and_summed(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        assert driver.get_tokens_spent() is None
        results = [driver.dispatch_worker(place.request()) for _ in range(2)]
        assert [result.usage for result in results] == [USED, USED]
        assert [result.tokens_spent for result in results] == [150, 150]
        assert driver.get_tokens_spent() == 300
        assert driver.get_unmetered_dispatches() == 0

    def test_unknown_use_is_none_and_counted_never_zero(self, place: Place) -> None:
        driver = self.driver(place, Plan(usage=None))
        result = driver.dispatch_worker(place.request())
        assert result.ok
        assert result.tokens_spent is None
        assert driver.get_tokens_spent() is None
        assert driver.get_unmetered_dispatches() == 1

    def test_a_failed_agent_is_a_failed_dispatch_with_a_reason(self, place: Place) -> None:
        driver = self.driver(place, Plan(fails=True))
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.status, result.failure) == (False, "failed", FAILURE_AGENT)
        assert "it went wrong" in (result.error or "")
        assert driver.worker_status(result.worker_id).state == "failed"

    def test_every_dispatch_has_an_id_of_its_own(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        requests = [place.request(scratch=place.root / f"scratch-{n}") for n in range(8)]
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(driver.dispatch_worker, requests))
        assert len({result.worker_id for result in results}) == 8
        assert {driver.worker_status(result.worker_id).state for result in results} == {"done"}

    def test_an_id_nobody_knows_is_unknown(self, place: Place) -> None:
        assert self.driver(place, Plan()).worker_status("worker-1").state == "unknown"

    def test_after_cancel_no_agent_starts(self, place: Place) -> None:
        driver = self.driver(place, Plan(files={"a.txt": "x"}))
        driver.cancel()
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_CANCELLED)
        assert not (place.workspace / "a.txt").exists()

    def test_it_says_what_it_can_do_in_ascii(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        capabilities = driver.probe_capabilities()
        assert capabilities.worker_filesystem_access is self.WORKS_ON_FILES
        assert capabilities.recommended_verification_tier in (1, 2, 3, 4)
        assert driver.describe().isascii()

    def test_an_unknown_role_gets_the_workers_model(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        assert driver.resolve_model("juggler") == driver.resolve_model("worker")

    def test_an_option_that_nobody_knows_is_an_error(self, place: Place) -> None:
        with pytest.raises(TypeError, match="timout_s"):
            self.driver(place, Plan(), timout_s=1.0)

    def test_a_ready_backend_has_no_problems(self, place: Place) -> None:
        assert self.driver(place, Plan()).readiness_problems() == ()

    def test_an_examination_of_a_ready_backend_fails_nothing_and_spends_nothing(
        self, place: Place
    ) -> None:
        driver = self.driver(place, Plan())
        checks = driver.examine()
        assert checks
        assert [check for check in checks if not check.ok] == []
        assert driver.get_tokens_spent() is None

    def test_commands_run_as_text_for_the_shell_or_as_arguments(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        cwd = str(place.workspace)
        code = "import os, sys; print(os.getcwd()); sys.exit(3)"
        as_list = driver.run_command([*PYTHON, "-c", code], cwd)
        as_text = driver.run_command("exit 4", cwd)
        assert (as_list.exit_code, Path(as_list.stdout.strip())) == (3, place.workspace)
        assert (as_text.exit_code, as_text.ok) == (4, False)

    def test_a_command_that_cannot_start_has_exit_code_127(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        result = driver.run_command([str(place.root / "absent")], str(place.workspace))
        assert result.exit_code == 127
        assert result.could_not_run

    def test_commands_do_not_see_the_parents_keys(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        code = "import os; print(dict(os.environ))"
        result = driver.run_command([*PYTHON, "-c", code], str(place.workspace))
        assert result.ok
        assert SECRET not in result.stdout

    def test_bounded_commands_get_their_limits(self, place: Place) -> None:
        driver = self.driver(place, Plan())
        code = "import os, time; print(dict(os.environ), flush=True); time.sleep(60)"
        limits = CommandLimits(0.5, {**PARENT, "ONLY": "this"}, place.root / "test")
        command = [*PYTHON, "-c", code]
        result = driver.run_bounded(command, str(place.workspace), limits)
        assert (result.timed_out, result.cancelled, result.ok) == (True, False, False)
        assert "'ONLY': 'this'" in result.stdout
        assert result.duration_s >= 0.5
        assert result.output_file is not None
        assert "'ONLY': 'this'" in Path(result.output_file).read_text(encoding="utf-8")


class WaitingContract(DriverContract):
    """The rules for adapters whose agent takes its time."""

    TOO_LATE: ClassVar = FAILURE_TIMED_OUT

    @abstractmethod
    def arrived(self, place: Place) -> bool:
        """Whether the agent has got its task."""

    def look_at_the_running(self, driver: LocalDriver) -> None:
        """Called while one agent runs."""

    def test_an_agent_that_hangs_is_ended(self, place: Place) -> None:
        driver = self.driver(place, Plan(hangs=True), timeout_s=0.3)
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, self.TOO_LATE)
        assert result.tokens_spent is None
        assert driver.processes.running() == ()

    def test_the_time_limit_is_one_for_all_tries(self, place: Place) -> None:
        driver = self.driver(place, Plan(hangs=True), stall_s=0.2, timeout_s=0.3)
        began = time.monotonic()
        result = driver.dispatch_worker(place.request())
        assert result.failure in (FAILURE_COULD_NOT_RUN, FAILURE_TIMED_OUT)
        assert not (place.root / "scratch" / "try-2").exists()
        assert time.monotonic() - began < patient(5)

    def test_cancel_ends_a_running_agent(self, place: Place) -> None:
        driver = self.driver(place, Plan(hangs=True))
        results: list[WorkerResult] = []
        thread = threading.Thread(
            target=lambda: results.append(driver.dispatch_worker(place.request()))
        )
        thread.start()
        try:
            until(lambda: self.arrived(place))
            self.look_at_the_running(driver)
        finally:
            driver.cancel()
            thread.join(timeout=60)
        assert [result.failure for result in results] == [FAILURE_CANCELLED]
        assert driver.processes.running() == ()


class FaultContract(DriverContract):
    """The rules for adapters that tell a provider's fault from an agent's failure."""

    @pytest.mark.parametrize("kind", LASTING)
    def test_a_fault_that_lasts_is_told_at_once_and_is_not_the_agents_failure(
        self, place: Place, kind: FaultKind
    ) -> None:
        plan = Plan(files={"a.txt": "x"}, fault=kind, fault_times=1)
        result = self.driver(place, plan).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.fault is not None
        assert result.fault.kind is kind
        assert result.error
        assert not result.tokens_spent
        assert not (place.workspace / "a.txt").exists()

    @pytest.mark.parametrize(
        "kind", [PASSING[0], pytest.param(PASSING[1], marks=pytest.mark.sweep)]
    )
    def test_a_busy_provider_is_asked_again(self, place: Place, kind: FaultKind) -> None:
        plan = Plan(files={"a.txt": "x"}, fault=kind, fault_times=1)
        result = self.driver(place, plan).dispatch_worker(place.request())
        assert (result.ok, result.failure, result.fault) == (True, FAILURE_NONE, None)
        assert (place.workspace / "a.txt").read_text(encoding="utf-8") == "x"
        # What the refused request cost is unknown where the agent does not tell.
        assert result.tokens_spent in (150, None)


class WriterContract(DriverContract):
    """The rules for adapters that write the files themselves."""

    @pytest.mark.parametrize("path", ["../outside.txt", ".git/config", "/outside.txt"])
    def test_one_path_outside_keeps_all_from_being_written(self, place: Place, path: str) -> None:
        plan = Plan(files={"a.txt": "x", path: "y"})
        result = self.driver(place, plan).dispatch_worker(place.request())
        assert not result.ok
        assert path in (result.error or "")
        assert list(place.workspace.rglob("*")) == []
        assert not (place.root / "outside.txt").exists()


class ProgramDriverContract(WaitingContract):
    """The rules for adapters that run a program."""

    def arrived(self, place: Place) -> bool:
        return place.prompt_file.exists()

    def look_at_the_running(self, driver: LocalDriver) -> None:
        (running,) = driver.processes.running()
        status = driver.worker_status(running.name)
        assert (status.state, status.stalled) == ("running", False)
        assert 0 <= status.age_s < patient(10)

    @abstractmethod
    def without_program(self, place: Place) -> LocalDriver:
        """A driver whose program is nowhere."""

    def test_the_agent_works_in_the_workspace(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request())
        seen = json.loads(place.seen_file.read_text(encoding="utf-8"))
        assert Path(seen["cwd"]) == place.workspace

    def test_the_prompt_arrives_intact(self, place: Place) -> None:
        prompt = "Gr\u00fc\u00dfe \u2014 \U0001f30a \r\n\ttab \x00 " + "x" * 200_000 + "\nend"
        self.driver(place, Plan()).dispatch_worker(place.request(prompt))
        assert place.prompt_file.read_bytes() == prompt.encode()

    def test_half_a_character_in_a_prompt_does_no_harm(self, place: Place) -> None:
        result = self.driver(place, Plan()).dispatch_worker(place.request("a\ud800b"))
        assert result.ok

    def test_the_parents_keys_are_not_passed_on(self, place: Place) -> None:
        self.driver(place, Plan()).dispatch_worker(place.request())
        assert SECRET not in place.environment.values()
        assert "IS_SANDBOX" not in place.environment

    def test_a_named_variable_and_the_engines_own_are_passed_on(self, place: Place) -> None:
        driver = self.driver(place, Plan(), env=("OPENAI_API_KEY", "NOT_SET_ANYWHERE"))
        driver.dispatch_worker(place.request(environment={"TIDEGATE_ITEM": "other"}))
        assert place.environment["OPENAI_API_KEY"] == SECRET
        assert place.environment["TIDEGATE_ITEM"] == "other"
        assert "NOT_SET_ANYWHERE" not in place.environment

    def test_without_scratch_a_temporary_folder_serves(self, place: Place) -> None:
        result = self.driver(place, Plan()).dispatch_worker(place.request(scratch=None))
        assert (result.ok, result.usage) == (True, USED)

    def test_an_agent_that_falls_silent_is_ended_and_started_once_more(self, place: Place) -> None:
        driver = self.driver(place, Plan(hangs=True), stall_s=0.2)
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.fault is not None
        assert result.fault.kind is FaultKind.SILENT
        assert "silence" in (result.error or "")
        tried = sorted(path.name for path in (place.root / "scratch").glob("try-*"))
        assert tried == ["try-2"]
        assert driver.get_unmetered_dispatches() == 2

    def test_a_missing_program_could_not_run_and_says_what_to_do(self, place: Place) -> None:
        driver = self.without_program(place)
        result = driver.dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.usage == Usage(0, 0, 0.0)
        (problem,) = driver.readiness_problems()
        assert [check.ok for check in driver.examine()] == [False]
        assert "install" in problem
        assert "[backend]" in problem
        assert result.error == problem

    def test_a_workspace_that_is_gone_could_not_run(self, place: Place) -> None:
        place.workspace.rmdir()
        result = self.driver(place, Plan()).dispatch_worker(place.request())
        assert (result.ok, result.failure) == (False, FAILURE_COULD_NOT_RUN)
        assert result.usage == Usage(0, 0, 0.0)
