"""`dispatch_item` on plain dicts: its answer comes from the test's exit code and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driver.backend_api.driver import WorkerResult
from driver.backends.item_bridge import dispatch_item
from tests.support.waves import Agent, ScriptedDriver, item, writes

IS_GOOD = ["grep", "-qx", "good", "a.txt"]


def dispatch(folder: Path, script: Any, **more: Any) -> tuple[dict[str, Any], ScriptedDriver]:
    driver = ScriptedDriver({"a": script})
    given = {**item("a", "a.txt", IS_GOOD), **more}
    return dispatch_item(driver, given, str(folder)), driver


def test_green_is_exit_code_zero_in_the_folder_as_it_is(tmp_path: Path) -> None:
    answer, driver = dispatch(tmp_path, writes(a__txt="good"))
    assert (answer["route"], answer["ok"], answer["verified"]) == ("harness", True, True)
    assert (answer["testExit"], answer["error"]) == (0, None)
    assert answer["workerId"]
    (request,) = driver.requests
    assert (request.label, request.workdir, request.owned_files) == (
        "dispatch:a",
        str(tmp_path),
        ("a.txt",),
    )


def test_an_agents_word_does_not_make_a_red_test_green(tmp_path: Path) -> None:
    def boasts(agent: Agent) -> WorkerResult:
        agent.write({"a.txt": "bad"})
        return WorkerResult("", ok=True, verified=True, text="all tests pass")

    answer, _ = dispatch(tmp_path, boasts)
    assert (answer["ok"], answer["verified"], answer["testExit"]) == (False, False, 1)
    assert answer["error"] == "test failed with exit 1"


def test_without_a_test_the_agent_runs_and_nothing_is_proven(tmp_path: Path) -> None:
    answer, driver = dispatch(tmp_path, writes(a__txt="good"), testCmd="")
    assert (answer["ok"], answer["verified"]) == (False, False)
    assert (answer["reason"], answer["testExit"]) == ("no_test_command", None)
    assert "no testCmd" in answer["error"]
    assert len(driver.requests) == 1
    assert (answer["workerId"], answer["filesWritten"]) != (None, None)
    assert (tmp_path / "a.txt").read_text() == "good"


def test_a_failed_worker_is_not_tested(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("good")
    answer, _ = dispatch(tmp_path, lambda agent: WorkerResult("", error="tired"))
    assert (answer["ok"], answer["testExit"]) == (False, None)
    assert answer["error"] == "dispatch_worker failed: tired"


def test_an_exception_of_a_backend_is_an_answer(tmp_path: Path) -> None:
    answer, _ = dispatch(tmp_path, lambda agent: 1 // 0)
    assert (answer["ok"], answer["verified"]) == (False, False)
    assert answer["error"].startswith("dispatch_item internal error: ")
    assert answer["filesWritten"] is None


@pytest.mark.parametrize("key", ["workdir", "workDir"])
def test_the_folder_is_the_argument_or_what_the_item_says(tmp_path: Path, key: str) -> None:
    driver = ScriptedDriver({"a": [writes(a__txt="good"), writes(a__txt="good")]})
    given = {**item("a", "a.txt", IS_GOOD), key: str(tmp_path / "named")}
    for folder in (tmp_path / "named", tmp_path / "argument"):
        folder.mkdir()
    assert dispatch_item(driver, given)["ok"]
    assert dispatch_item(driver, given, str(tmp_path / "argument"))["ok"]
    told = [request.workdir for request in driver.requests]
    assert told == [str(tmp_path / "named"), str(tmp_path / "argument")]
