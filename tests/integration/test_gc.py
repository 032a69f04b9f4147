"""`tools/gc.py` on what real waves left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from driver.git.private_git import open_repository
from driver.preparation.kept_places import folder_of
from driver.workspace.root import workspace_root
from state_store.archives.segments import archive_path
from state_store.database.store import EventStore
from tests.bench.past_waves import add_past_waves
from tests.support.interpreter import PYTHON
from tests.support.killed import kill_a_run
from tests.support.programs import ROOT, Project, Ran, call, item, run, tree_hash
from tests.support.rewound import Rewound
from tools import doctor, reproduce, state, verify_state
from tools.gc import main

pytestmark = [
    pytest.mark.usefixtures("at_home"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]
DAY_S = 86400


def gc(project: Project, *flags: str, code: int = 0) -> Ran:
    done = call(main, *project.places(), *flags)
    assert (done.code, done.err) == (code, "")
    return done


@pytest.fixture(scope="module")
def killed_once(
    tmp_path_factory: pytest.TempPathFactory, template: Path
) -> tuple[Project, Rewound]:
    folder = tmp_path_factory.mktemp("killed")
    project = Project(folder, template)
    kill_a_run(project, "a")
    return project, Rewound(folder)


@pytest.fixture
def killed(killed_once: tuple[Project, Rewound]) -> Project:
    """A project whose run was killed with the agent of `a` at work."""
    project, rewound = killed_once
    rewound.again()
    return project


def steps(project: Project, *flags: str, code: int = 0) -> dict[str, str]:
    """What became of each thing, by the last part of its name."""
    told: list[dict[str, Any]] = gc(project, "--json", *flags, code=code).report["steps"]
    return {step["name"]: step["done"] for step in told if step["done"] != "told"}


def ship(project: Project, name: str, wave_id: str, **fields: Any) -> dict[str, Any]:
    manifest = project.manifest(item(name, **fields), wave_id=wave_id)
    return project.loop("--manifest", manifest).report


def age(top: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    for path in (top, *top.rglob("*")):
        os.utime(path, (then, then), follow_symlinks=False)


def works(project: Project) -> list[Path]:
    return list((project.home / "work").glob("*"))


def test_the_empty_folder_of_a_repository_in_the_cache_goes(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project.config.write_text('[backend]\nname = "command"\ncommand = ["true"]\n')
    project.state.mkdir()
    root = workspace_root(None, os.environ, open_repository(project.top, os.environ))
    folder_of(root, project.top).mkdir(parents=True)
    gc(project, "--dry-run")
    assert root.is_dir()
    (root / "of-a-run").mkdir()
    gc(project)
    assert [path.name for path in root.iterdir()] == ["of-a-run"]
    (root / "of-a-run").rmdir()
    gc(project)
    assert not root.exists()


def test_a_killed_runs_clones_go_after_its_work_was_saved(project: Project) -> None:
    kill_a_run(project, "a", "b")
    assert works(project)
    before = tree_hash(project.state)
    planned = gc(project, "--dry-run").out
    assert "would remove run killed" in planned
    assert tree_hash(project.state) == before
    assert works(project)
    gc(project)
    assert not works(project)
    for name in ("a", "b"):
        patch = project.state / "runs" / "killed" / name / "interrupted.patch"
        project.git("apply", "--check", str(patch))
        assert "+half" in patch.read_text()
    assert not list(project.state.glob("runs/*/run.json"))


@pytest.mark.more
def test_a_folder_whose_note_is_gone_is_saved_too_and_removed(killed: Project) -> None:
    (killed.state / "runs" / "killed" / "run.json").unlink()
    gc(killed)
    assert not works(killed)
    assert (killed.state / "runs" / "killed" / "a" / "interrupted.patch").exists()


@pytest.mark.more
def test_work_that_cannot_be_saved_stays_and_is_named(killed: Project) -> None:
    (killed.state / "runs" / "killed" / "run.json").unlink()
    (folder,) = works(killed)
    (folder / "private.git" / "HEAD").unlink()
    done = gc(killed, code=1)
    assert f"failed workspaces {folder}" in done.out
    assert (folder / "items" / "a" / "a.txt").read_text() == "half"


@pytest.mark.more
def test_a_folder_that_a_living_process_uses_stays(killed: Project) -> None:
    (killed.state / "runs" / "killed" / "run.json").unlink()
    (folder,) = works(killed)
    with subprocess.Popen(["sleep", "60"], cwd=folder / "items" / "a") as sleeper:
        assert steps(killed)[str(folder)] == "kept"
        sleeper.kill()
    assert steps(killed)[str(folder)] == "removed"


@pytest.mark.more
def test_a_folder_of_a_living_run_stays_whatever_else_is_gone(killed: Project) -> None:
    (folder,) = works(killed)
    sign = json.loads((folder / "place.json").read_text())
    stat = Path("/proc/self/stat").read_text().rpartition(") ")[2].split()
    sign |= {"pid": os.getpid(), "started": int(stat[19])}
    (folder / "place.json").write_text(json.dumps(sign))
    (killed.state / "runs" / "killed" / "run.json").unlink()
    assert steps(killed, "--older-than", "0")[str(folder)] == "kept"
    assert (folder / "items" / "a" / "a.txt").read_text() == "half"


@pytest.mark.more
def test_a_folder_from_another_machine_goes_only_when_it_is_old(killed: Project) -> None:
    (folder,) = works(killed)
    sign = json.loads((folder / "place.json").read_text())
    (folder / "place.json").write_text(json.dumps(sign | {"boot": "another"}))
    (killed.state / "runs" / "killed" / "run.json").unlink()
    assert steps(killed)[str(folder)] == "kept"
    os.utime(folder, (1, 1))
    assert steps(killed)[str(folder)] == "removed"


def test_read_only_files_and_deep_folders_are_removed(killed: Project) -> None:
    (folder,) = works(killed)
    script = (
        "import os, sys; os.chdir(sys.argv[1])\n"
        "for _ in range(30): os.mkdir('d' * 200); os.chdir('d' * 200)\n"
        "open('f', 'w').close(); os.chmod('f', 0o400); os.chmod('.', 0o500)\n"
    )
    subprocess.run([*PYTHON, "-c", script, str(folder / "proving")], check=True)
    gc(killed)
    assert not folder.exists()


@pytest.mark.more
def test_only_a_merged_wave_branch_goes(project: Project) -> None:
    merged, unmerged = ship(project, "a", "w1")["branch"], ship(project, "b", "w2")["branch"]
    project.git("merge", "-q", "--ff-only", merged)
    out = ship(project, "c", "w3")["branch"]
    project.git("merge", "-q", "--ff-only", out)
    project.git("worktree", "add", "-q", str(project.home / "tree"), out)
    project.git("branch", "wave/mine")
    done = steps(project)
    assert {name: done.get(name) for name in (merged, unmerged, out, "wave/mine")} == {
        merged: "removed",
        unmerged: "kept",
        out: "kept",
        "wave/mine": None,
    }
    assert project.branches() == sorted([unmerged, out, "wave/mine"])


@pytest.mark.more
def test_a_branch_is_not_merged_because_another_than_its_own_has_it(project: Project) -> None:
    branch = ship(project, "a", "w1")["branch"]
    project.git("checkout", "-q", "-b", "mine", branch)
    assert steps(project)[branch] == "kept"
    project.git("update-ref", "refs/remotes/origin/main", branch)
    assert steps(project)[branch] == "removed"


@pytest.mark.more
def test_a_ref_on_the_way_goes_when_a_branch_has_its_commits(project: Project) -> None:
    head = project.git("rev-parse", "HEAD").strip()
    alone = project.git("commit-tree", "-p", head, "-m", "x", "HEAD^{tree}").strip()
    for commit in (head, alone):
        project.git("update-ref", f"refs/tidegate/{commit}", commit)
    ship(project, "a", "w1")
    done = steps(project)
    assert (done[f"refs/tidegate/{head}"], done[f"refs/tidegate/{alone}"]) == ("removed", "kept")
    assert project.git("for-each-ref", "refs/tidegate/").split()[0] == alone


@pytest.mark.more
def test_old_outputs_and_journals_of_shipped_and_merged_items_go(project: Project) -> None:
    branch = ship(project, "a", "w1")["branch"]
    runs, journal = project.state / "runs", project.state / "journal" / "a.json"
    ship(project, "b", "w2", testCmd=["false"])
    age(runs, 20)
    entry = json.loads(journal.read_text())
    journal.write_text(json.dumps(entry | {"timestamp": time.time() - 20 * DAY_S}))
    assert steps(project)[str(runs / "w1")] == "kept"  # its branch is neither pushed nor merged
    assert journal.exists()
    project.git("merge", "-q", "--ff-only", branch)
    done = steps(project)
    assert (done[str(runs / "w1")], done[str(runs / "w2")]) == ("removed", "kept")
    assert not journal.exists()
    assert (runs / "w2" / "b" / "work.patch").exists()


@pytest.mark.more
def test_young_outputs_stay_unless_asked_for(project: Project) -> None:
    branch = ship(project, "a", "w1")["branch"]
    project.git("merge", "-q", "--ff-only", branch)
    folder = project.state / "runs" / "w1"
    assert str(folder) not in steps(project)
    assert steps(project, "--older-than", "0")[str(folder)] == "removed"


@pytest.mark.more
def test_temporary_files_of_killed_writers_go_and_no_others(project: Project) -> None:
    ship(project, "a", "w1")
    old = [project.state / "journal" / f".{'0a' * 8}.tmp", project.state / f".{'1b' * 8}.tmp"]
    others = [project.state / ".mine.tmp", project.state / "notes.tmp"]
    for path in (*old, *others):
        path.touch()
    age(project.state, 1)
    fresh = project.state / f".{'2c' * 8}.tmp"
    fresh.touch()
    done = steps(project)
    assert [done.get(str(path)) for path in (*old, *others, fresh)] == [
        "removed", "removed", None, None, None,
    ]  # fmt: skip


@pytest.mark.more
def test_what_killed_runs_had_for_a_moment_goes_when_it_is_old(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(project, "a", "w1")
    place = tmp_path / "for a moment"
    monkeypatch.setenv("TMPDIR", str(place))
    old, used, fresh, others = (
        place / name for name in (*(f"tg-0123abcd-{n}-x" for n in (1, 2, 3)), "tg-run-x")
    )
    for folder in (old, used, others):
        (folder / "private.git").mkdir(parents=True)
        age(folder, 30)
    fresh.mkdir()
    with subprocess.Popen(["sleep", "60"], cwd=used) as sleeper:
        assert steps(project)[str(old)] == "removed"
        sleeper.kill()
    assert sorted(place.iterdir()) == sorted([used, fresh, others])


@pytest.mark.more
def test_the_users_checkout_is_left_alone(project: Project) -> None:
    merged = ship(project, "a", "w1")["branch"]
    project.git("merge", "-q", "--ff-only", merged)
    kill_a_run(project, "b")
    (project.top / "untracked.txt").write_text("mine")
    (project.top / "README.md").write_text("edited")
    before = looked_at(project)
    gc(project, "--older-than", "0")
    assert looked_at(project) == before


def looked_at(project: Project) -> list[Any]:
    own = project.top / ".git"
    files = [(own / name).read_bytes() for name in ("index", "config", "HEAD")]
    return [*files, project.git("status", "--porcelain"), project.git("rev-parse", "HEAD")]


@pytest.mark.more
def test_waves_some_of_them_killed_leave_nothing_but_unmerged_work(project: Project) -> None:
    kept = ship(project, "kept", "kept")["branch"]
    for number in range(3):
        branch = ship(project, f"i{number}", f"w{number}")["branch"]
        project.git("merge", "-q", "--ff-only", branch)
    for name in ("k0", "k1"):
        kill_a_run(project, name, wave_id=name)
    gc(project)
    assert project.branches() == [kept]
    assert works(project) == []
    assert len(project.git("worktree", "list").splitlines()) == 1
    saved = [path.parent.name for path in project.state.glob("runs/*/*/interrupted.patch")]
    assert sorted(saved) == ["k0", "k1"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--older-than", "x"], "older-than: 'x' is no number of days"),
        (["--state-dir", "nowhere"], "no state folder"),
    ],
)
def test_bad_input_is_one_sentence(project: Project, flags: list[str], says: str) -> None:
    done = run(ROOT / "tools" / "gc.py", "--repo", project.top, *flags, cwd=project.home)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert len(done.err.splitlines()) == 1


@pytest.mark.more
def test_what_an_ended_run_left_to_be_removed_goes(project: Project) -> None:
    left = project.home / "work" / "w1-abc.removed"
    (left / "items").mkdir(parents=True)
    (left / "items").chmod(0)
    project.state.mkdir()
    assert steps(project, "--dry-run") == {str(left): "would remove"}
    assert steps(project) == {str(left): "removed"}
    assert not left.exists()


def test_a_plan_without_an_old_wave_counts_none(project: Project) -> None:
    project.state.mkdir()
    database = project.state / "tracker_events.db"
    with EventStore(database) as store:
        store.append_many("claims", [("requested", {"holder": "x" * 100})] * 3000, "test")
    planned = gc(project, "--dry-run", "--older-than", "0").out
    assert f"would remove past events {database}: events of long streams are old" in planned


def test_events_of_old_waves_leave_the_database_and_are_read_as_before(project: Project) -> None:
    ship(project, "a", "w1")
    add_past_waves(project.state, 20)
    database = project.state / "tracker_events.db"

    def shown() -> list[str]:
        words = (["waves"], ["wave", "w1"], ["traces"], ["events", "wave:w1"])
        told = [call(state.main, *word, "--state-dir", project.state) for word in words]
        assert [(one.code, one.err) for one in told] == [(0, "")] * len(words)
        return [one.out for one in told]

    before, size = shown(), database.stat().st_size
    planned = gc(project, "--dry-run", "--older-than", "0").out
    assert f"would remove past events {database}: 21 waves are old" in planned
    assert shown() == before
    assert steps(project, "--older-than", "0")[str(database)] == "removed"
    assert shown() == before
    assert database.stat().st_size < size
    assert str(database) not in steps(project, "--older-than", "0")
    where = ("--repo", project.top, "--config", project.config)
    assert call(reproduce.main, "w1", *where).code == 0
    assert call(verify_state.main, *where[:2], "--state-dir", project.state).code == 0
    assert ship(project, "b", "w2")["shipped"] == ["b"]
    archive_path(project.state, 1).unlink()
    lost = call(verify_state.main, "--state-dir", project.state)
    assert lost.code == 4
    assert "1.jsonl.gz is missing; put back a copy of it" in lost.out
    assert "1.jsonl.gz is missing or incomplete" in call(doctor.main, *project.places()).out
    assert ship(project, "c", "w3")["shipped"] == ["c"]
