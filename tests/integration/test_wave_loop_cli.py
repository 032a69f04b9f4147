"""`wave_loop.py`: one manifest, one report, and an exit code that says what became of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from driver import wave_loop, wave_scheduler
from driver.backend_api.driver import (
    AgentDriver,
    CommandResult,
    DriverCapabilities,
    WorkerRequest,
    WorkerResult,
    WorkerStatus,
)
from driver.reports.pages.files import SCHEMA
from tests.support.programs import LOOP, SCHEDULER, Project, environment, item, run, writes

REPORT_KEYS = {
    *("preflight_ok", "aborted", "abort_reason", "built", "shipped", "shipped_repos", "ceiling"),
    *("policy", "resume_stats", "adversarial_review", "tokens", "integration", "repairsUsed"),
}
BUILT_KEYS = {
    *("slug", "dispatched", "verified", "testExit", "repairs", "error", "filesWritten"),
    *("workerId", "adversarial_review"),
}


def test_a_manifest_is_shipped_to_a_wave_branch_with_git(project: Project) -> None:
    done = project.loop("--manifest", project.manifest(item("a"), item("b"), wave_id="w-1"))
    report = done.report
    assert done.code == 0, done.err
    assert report.keys() >= REPORT_KEYS
    assert all(record.keys() >= BUILT_KEYS for record in report["built"])
    assert (report["wave_id"], report["shipped"]) == ("w-1", ["a", "b"])
    assert report["shipped_repos"][0]["repo"] == str(project.top)
    assert project.branches() == [report["branch"]]
    assert project.git("show", f"{report['branch']}:a.txt") == "good"
    kept = project.state / "runs" / "w-1" / "report.json"
    printed = json.loads(done.out)
    assert json.loads(kept.read_text(encoding="utf-8")) == {"$schema": SCHEMA, **printed}


@pytest.mark.more
def test_without_git_work_is_proven_and_shipped_nowhere(project: Project) -> None:
    manifest = project.manifest(item("a"))
    done = run(LOOP, "--manifest", manifest, *project.places(), cwd=project.home)
    assert done.code == 0, done.err
    assert done.report["shipped"] is None
    assert done.report["built"][0]["verified"] is True
    assert project.branches() == []
    assert project.git("status", "--porcelain") == ""


@pytest.mark.more
def test_a_red_wave_is_no_success(project: Project) -> None:
    bad = item("b", prompt=writes("b.txt", "bad"))
    done = project.loop("--manifest", project.manifest(item("a"), bad), "--one-turn")
    assert done.code == 1
    assert done.report["shipped"] == ["a"]
    assert done.report["integration"] == {"green": False}
    assert done.report["repairsUsed"] == 0
    assert done.report["built"][1]["testExit"] == 1


@pytest.mark.more
def test_without_one_turn_a_red_item_is_repaired(project: Project) -> None:
    write = "pathlib.Path('a.txt').write_text"
    first = f"DO {write}('good' if os.environ['TIDEGATE_PHASE'] == 'repair' else 'bad')"
    done = project.loop("--manifest", project.manifest(item("a", prompt=first)))
    assert done.code == 0, done.err
    assert done.report["repairsUsed"] == 1
    again = project.loop("--manifest", project.manifest(item("a", prompt=first)), "--one-turn")
    assert (again.code, again.report["repairsUsed"]) == (1, 0)


@pytest.mark.more
def test_the_report_goes_into_the_file_and_only_there(project: Project) -> None:
    out = project.home / "out.json"
    done = project.loop("--manifest", project.manifest(item("a")), "--output", out)
    assert (done.code, done.out) == (0, "")
    assert json.loads(out.read_text(encoding="utf-8"))["shipped"] == ["a"]


@pytest.mark.more
def test_items_may_name_their_repositories(project: Project) -> None:
    manifest = project.manifest(item("a", repo=str(project.top)))
    flags = ("--git", "--config", project.config, "--state-dir", project.state)
    done = run(LOOP, *flags, "--manifest", manifest, cwd=project.home)
    assert done.code == 0, done.err
    assert done.report["shipped"] == ["a"]


@pytest.mark.more
def test_the_repository_is_that_of_the_current_folder(project: Project) -> None:
    flags = ("--git", "--config", project.config, "--state-dir", project.state)
    manifest = project.manifest(item("a"))
    done = run(
        LOOP, *flags, "--manifest", manifest, cwd=project.top / "sub", env=environment(project.home)
    )
    assert done.code == 0, done.err
    assert project.branches() == [done.report["branch"]]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("program", [SCHEDULER, LOOP], ids=lambda path: str(path.stem))
def test_dry_run_wins_over_execute_in_any_order(project: Project, program: Path) -> None:
    project.track(item("a"))
    work = (
        ("--dry-run", "--execute", "--tracker", project.tracker)
        if program == SCHEDULER
        else ("--git", "--dry-run", "--manifest", project.manifest(item("a")))
    )
    done = run(program, *work, *project.places(), cwd=project.home)
    assert done.code == 0, done.err
    assert done.report["dry_run"] is True
    assert not project.state.exists()
    assert project.branches() == []


def test_a_dry_run_finds_what_a_run_would_refuse(project: Project) -> None:
    manifest = project.manifest(item("a"), item("b", ownsFiles=["A.TXT"]))
    done = project.loop("--dry-run", "--manifest", manifest)
    assert done.code == 2
    assert done.report["abort_reason"] == "ownership_overlap"


class WritingDriver(AgentDriver):
    """A backend of a caller's own: the five operations and nothing more."""

    name = "mine"

    def probe_capabilities(self) -> DriverCapabilities:
        return DriverCapabilities(
            name=self.name, recommended_verification_tier=1, worker_filesystem_access=True
        )

    def dispatch_worker(self, request: WorkerRequest) -> WorkerResult:
        for name in request.owned_files:
            (Path(request.workdir) / name).write_text("good", encoding="utf-8")
        return WorkerResult("w", status="done", ok=True, files_written=request.owned_files)

    def worker_status(self, worker_id: str) -> WorkerStatus:
        return WorkerStatus(worker_id)

    def run_command(
        self, command: Any, cwd: str | None = None, shell: bool | None = None
    ) -> CommandResult:
        said = Path(cwd or ".", "a.txt").read_text(encoding="utf-8")
        return CommandResult(0 if said == "good" else 1)

    def resolve_model(self, role: str) -> str:
        return role


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("IS_SANDBOX", raising=False)


@pytest.mark.more
@pytest.mark.usefixtures("alone")
def test_callers_of_run_wave_get_the_documented_answer(project: Project) -> None:
    result = wave_loop.run_wave(
        WritingDriver(),
        {"items": [item("a", testCmd="true")]},
        state_dir=project.state,
        git={"expectTopLevel": str(project.top)},
    )
    assert result.keys() >= REPORT_KEYS
    assert result["shipped"] == ["a"], result
    short = wave_loop.result_to_report(result)
    assert short.keys() == {
        *("tokens", "integration", "repairsUsed", "built", "preflight_ok", "aborted")
    }
    assert short["tokens"].keys() >= {"buildOut", "verifyOut", "repairOut", "totalOut"}


@pytest.mark.more
@pytest.mark.usefixtures("alone")
def test_callers_of_the_scheduler_get_the_documented_report(project: Project) -> None:
    (project.top / "tracker.json").write_text(
        json.dumps([item("a", testCmd="true")]), encoding="utf-8"
    )
    report = wave_scheduler.run_wave_scheduler(
        str(project.top / "tracker.json"), 5, False, WritingDriver(), str(project.state)
    )
    assert report["success"] is True, report
    assert [shipped["slug"] for shipped in report["items_shipped"]] == ["a"]
    assert report["items_shipped"][0]["tier"] == 1


@pytest.mark.more
@pytest.mark.usefixtures("alone")
def test_run_wave_may_be_replaced_by_a_function_of_the_documented_parameters(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seam that callers of the source use; the repository need not be one."""

    def run_wave(
        *,
        driver: AgentDriver,
        manifest: Mapping[str, Any],
        state_dir: Path,
        git: Mapping[str, Any],
        resume_journal: bool,
    ) -> dict[str, Any]:
        assert resume_journal
        seen.append(manifest)
        return {"preflight_ok": True, "aborted": False, "built": [], "shipped": ["a"]}

    seen: list[Mapping[str, Any]] = []
    monkeypatch.setattr(wave_loop, "run_wave", run_wave)
    monkeypatch.chdir(project.home)
    project.track(item("a"))
    report = wave_scheduler.run_wave_scheduler(
        project.tracker, driver=WritingDriver(), state_dir=project.state
    )
    assert [one["slug"] for one in seen[0]["items"]] == ["a"]
    (shipped,) = report["items_shipped"]
    assert (shipped["tier"], shipped["verified"], shipped["buildRecord"]) == (None, False, None)
    assert report["success"] is False


def test_an_unknown_name_is_not_made_up() -> None:
    for module in (wave_loop, wave_scheduler):
        with pytest.raises(AttributeError, match="no_such_name"):
            getattr(module, "no_such_name")  # noqa: B009 - mypy knows it is not there
