"""All programs find the same state folder from any folder of a repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.beside import beside_on
from tests.support.programs import ROOT, SCHEDULER, Project, a_project, item, run
from tools.settings.load import resolve_state_dir, top_of

on_project = beside_on(a_project)


def test_a_halt_set_in_a_subfolder_stops_the_run_of_the_top(project: Project) -> None:
    below = project.top / "deep" / "er"
    below.mkdir(parents=True)
    halted = run([str(ROOT / "tools" / "halt.py"), "set", "stop"], cwd=below)
    assert halted.code == 0
    assert not (below / "state").exists()
    assert (project.top / "state" / ".HALT").is_file()
    status = run([str(ROOT / "tools" / "halt.py"), "--status"], cwd=project.top)
    assert status.code == 1


def test_a_run_in_a_subfolder_takes_tracker_and_settings_of_the_top(project: Project) -> None:
    (project.top / "state").mkdir()
    project.track(item("a")).rename(project.top / "state" / "tracker.json")
    below = project.top / "deep"
    below.mkdir()
    plan = run([str(SCHEDULER), "--dry-run"], cwd=below)
    assert plan.report["items_selected"] == ["A"], plan.err
    assert not (below / "state").exists()


def a_repository(folder: Path) -> Path:
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("below", [".", "src", "src/deep"])
def test_one_rule_for_the_default_and_for_a_configured_folder(tmp_path: Path, below: str) -> None:
    top = a_repository(tmp_path / "repo")
    here = top / below
    here.mkdir(parents=True, exist_ok=True)
    none: dict[str, str] = {}
    assert resolve_state_dir(environ=none, cwd=here) == top / "state"
    (top / "tidegate.toml").write_text('state_dir = "kept/here"\n', encoding="utf-8")
    assert resolve_state_dir(environ=none, cwd=here) == top / "kept" / "here"
    assert resolve_state_dir(environ={"AESOP_ROOT": str(tmp_path)}, cwd=here) == (
        tmp_path / "kept" / "here"
    )
    assert resolve_state_dir("mine", environ=none, cwd=here) == here / "mine"
    assert resolve_state_dir(environ={"TIDEGATE_STATE_DIR": "v"}, cwd=here) == here / "v"


def test_a_folder_of_no_repository_is_its_own_top(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()  # git does not take this for a repository either
    assert top_of(tmp_path) == tmp_path
    linked = tmp_path / "worktree"
    linked.mkdir()
    (linked / ".git").write_text("gitdir: /elsewhere\n", encoding="utf-8")
    assert top_of(linked / "a" / "b") == linked
