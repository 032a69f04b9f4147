"""`wave_loop`, `wave_scheduler`, `wave_bridge` and the drivers as callers of the original project
use them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driver import (
    claude_code_driver,
    codex_driver,
    openai_compatible_driver,
    wave_bridge,
    wave_loop,
    wave_scheduler,
)
from driver.agent_driver import WorkerRequest
from tests.support.waves import Scene, ScriptedDriver, item, writes
from tools import cost_ceiling, halt

GOOD = ["grep", "-qx", "good", "a.txt"]
FILES = {"a.txt": "bad\n", "b.txt": "b\n"}
KEPT = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"


def reached(**asked: Any) -> dict[str, Any]:
    return {"exceeded": True, "tripped": False, "ceiling": 1, "spent": 2, "reason": "cost: enough"}


@pytest.fixture
def tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TIDEGATE_STATE_DIR", "AESOP_STATE_ROOT", "AESOP_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    scene = Scene(tmp_path / "scene", FILES)
    path = scene.repo.path / "tracker.json"
    todo = {"id": "A", "status": "todo", **item("a", "a.txt", GOOD)}
    path.write_text(json.dumps({"items": [todo]}))
    return path


def ran(calls: list[dict[str, Any]]) -> Any:
    def run_wave(**asked: Any) -> dict[str, Any]:
        calls.append(asked)
        return {"preflight_ok": True, "aborted": False, "built": [], "shipped": []}

    return run_wave


def cycle(tracker: Path) -> dict[str, Any]:
    driver = ScriptedDriver({"a": writes(a__txt="good\n")})
    where = tracker.parent.parent / "state"
    return wave_scheduler.run_wave_scheduler(tracker, driver=driver, state_dir=where)


def test_a_replaced_run_wave_is_called_with_keywords(
    tracker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setitem(vars(wave_scheduler), "run_wave", ran(calls))
    assert cycle(tracker)["phase"] == "dispatch"
    (asked,) = calls
    assert asked.keys() == {"driver", "manifest", "state_dir", "git", "resume_journal"}


@pytest.mark.parametrize("how", ["module", "function"])
def test_a_replaced_ceiling_stops_the_scheduler(
    tracker: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    calls: list[dict[str, Any]] = []
    monkeypatch.setitem(vars(wave_scheduler), "run_wave", ran(calls))
    if how == "module":
        monkeypatch.setitem(vars(wave_scheduler), "cost_ceiling", SimpleNamespace(check=reached))
    else:
        monkeypatch.setattr(wave_scheduler.cost_ceiling, "check", reached)
    report = cycle(tracker)
    assert (report["phase"], report["success"], calls) == ("ceiling", False, [])
    assert report["ceiling_reason"] == "cost: enough"


def test_items_that_are_all_wrong_are_named_with_their_reasons(tracker: Path) -> None:
    bad = [{"id": "A", "status": "todo", "slug": "a"}, {"id": "B", "status": "todo", "slug": "b"}]
    tracker.write_text(json.dumps({"items": [*bad, {"id": "C", "status": "done"}]}))
    report = cycle(tracker)
    assert (report["success"], report["exit_code"], report["items_selected"]) == (False, 2, [])
    told = {one["id"]: one["reason"] for one in report["items_skipped"]}
    assert told == {"A": "no_file_ownership", "B": "no_file_ownership"}
    assert "item A:" in report["error"]


def test_a_halted_cycle_hides_the_secret_in_its_reason(
    tracker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, kept = "kT7mQ2vX9zR4pL1w", tmp_path / "notice.json"
    monkeypatch.setenv("SOME_VARIABLE", secret)
    argv = json.dumps([sys.executable, "-c", KEPT, str(kept)])
    (tracker.parent / "tidegate.toml").write_text(
        f'[secrets]\nvariables = ["SOME_VARIABLE"]\n[notify]\ncommand = {argv}\n'
    )
    halt.halt(f"it printed {secret}", tracker.parent.parent / "state")
    report = cycle(tracker)
    assert report["phase"] == "halt"
    for told in (report["halt_reason"], kept.read_text(encoding="utf-8")):
        assert "it printed [SOME_VARIABLE]" in told
        assert secret not in told


def test_a_replaced_halt_stops_the_scheduler(
    tracker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []
    switch = SimpleNamespace(is_halted=lambda _: True, get_halt_info=lambda _: {"reason": "lunch"})
    monkeypatch.setitem(vars(wave_scheduler), "run_wave", ran(calls))
    monkeypatch.setitem(vars(wave_scheduler), "halt", switch)
    report = cycle(tracker)
    assert (report["phase"], report["halt_reason"], calls) == ("halt", "lunch", [])


@pytest.mark.parametrize("how", ["module", "function"])
def test_a_replaced_ceiling_stops_a_wave_before_its_dispatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    scene = Scene(tmp_path, FILES)
    if how == "module":
        monkeypatch.setitem(vars(wave_loop), "cost_ceiling", SimpleNamespace(check=reached))
    else:
        monkeypatch.setattr(wave_loop.cost_ceiling, "check", reached)
    report, driver = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", GOOD)])
    assert (report["aborted"], report["abort_reason"]) == (True, "cost_ceiling_exceeded")
    assert driver.requests == []


def test_the_modules_are_those_of_the_tools() -> None:
    assert wave_loop.cost_ceiling is wave_scheduler.cost_ceiling is cost_ceiling
    assert wave_scheduler.halt is halt
    assert wave_scheduler.run_wave is wave_loop.run_wave


def test_a_wave_of_no_items_is_no_abort_and_not_green(tmp_path: Path) -> None:
    report = wave_loop.run_wave(ScriptedDriver({}), {"items": []}, state_dir=tmp_path / "state")
    assert (report["preflight_ok"], report["aborted"], report["built"]) == (True, False, [])
    assert (report["integration"]["green"], report["exit_code"]) == (False, 2)
    assert not (tmp_path / "state").exists()


def test_a_mixed_manifest_counts_its_items(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FILES)
    with_repo = item("a", "a.txt", GOOD, repo=str(scene.repo.path))
    items = [with_repo, item("b", "b.txt", GOOD), item("c", "c.txt", GOOD)]
    report, _ = scene.play({}, items)
    assert report["abort_reason"] == "mixed_repo_manifest"
    assert (report["items_with_repo"], report["items_without_repo"]) == (1, 2)


@pytest.mark.parametrize("tier", [2, 3, 4])
def test_work_in_no_repository_is_built_and_tested_and_only_its_review_is_undecided(
    tmp_path: Path, tier: int
) -> None:
    scene, plain = Scene(tmp_path, FILES), tmp_path / "plain"
    plain.mkdir()
    driver = ScriptedDriver({"a": writes(a__txt="good\n")}, tier=tier, environ=scene.environ)
    report = wave_loop.run_wave(
        driver, {"items": [item("a", "a.txt", GOOD)]}, options=scene.options(repo=plain)
    )
    (record,) = report["built"]
    assert (record["verdict"], record["isolation"]) == ("verified", "in_place")
    assert (record["adversarial_review"], record["commit"]) == ("undecided", None)
    assert len(driver.requests) == 1


def test_a_review_that_the_settings_demand_still_holds_such_work_back(tmp_path: Path) -> None:
    scene = Scene(tmp_path, FILES, config='[review]\nmode = "always"\n')
    plain = tmp_path / "plain"
    plain.mkdir()
    driver = ScriptedDriver({"a": writes(a__txt="good\n")}, environ=scene.environ)
    report = wave_loop.run_wave(
        driver, {"items": [item("a", "a.txt", GOOD)]}, options=scene.options(repo=plain)
    )
    assert (report["built"][0]["verdict"], driver.requests) == ("undecided", [])


def test_names_are_found_where_the_source_has_them() -> None:
    assert claude_code_driver.WORKER_UNKNOWN == codex_driver.WORKER_UNKNOWN == "unknown"
    assert (codex_driver.WORKER_DONE, codex_driver.WORKER_FAILED) == ("done", "failed")
    for module in (codex_driver, openai_compatible_driver):
        assert (module.ROLE_SETUP, module.ROLE_VERIFY) == ("setup", "verify")
    assert openai_compatible_driver.ROLE_WORKER == "worker"
    assert isinstance(vars(openai_compatible_driver)["_AuthStripRedirectHandler"], type)
    assert wave_bridge.dispatch_item.__module__ == wave_bridge.__name__


def answer(files: dict[str, str]) -> Any:
    patch = {
        "files": [{"path": path, "contents": text} for path, text in files.items()],
        "summary": "s",
        "done": True,
    }
    content = json.dumps(patch)
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return lambda payload: {"choices": [{"message": {"content": content}}], "usage": usage}


def test_a_read_only_file_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")
    path.chmod(0o444)
    driver = codex_driver.CodexDriver(transport=answer({"a.txt": "new"}))
    result = driver.dispatch_worker(WorkerRequest("p", ("a.txt",), str(tmp_path)))
    assert (result.ok, result.files_written, path.read_text()) == (False, (), "old")
    assert (result.error or "").startswith("write_failed:")


@pytest.mark.parametrize(
    ("name", "words"),
    [("a.txt", ("exceed context budget", "post-escape")), ("../x", ("escapes containment",))],
)
def test_the_words_of_a_file_that_cannot_be_shown(
    tmp_path: Path, name: str, words: tuple[str, ...]
) -> None:
    (tmp_path / "a.txt").write_text("x" * 400)
    driver = codex_driver.CodexDriver(transport=answer({}), max_owned_bytes=100)
    result = driver.dispatch_worker(WorkerRequest("p", (name,), str(tmp_path)))
    assert not result.ok
    assert [word for word in words if word not in (result.error or "")] == []
