"""`tools/recover.py` on what real waves left."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.killed import kill_a_run
from tests.support.programs import ROOT, Project, Ran, call, item, run
from tools import gc
from tools.recover import main

pytestmark = pytest.mark.usefixtures("at_home")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")


def recover(project: Project, *words: str | Path, code: int = 0) -> Ran:
    done = call(main, *words, "--state-dir", project.state)
    assert done.code == code, done.err
    return done


def listed(project: Project) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in json.loads(recover(project, "list", "--json").out)}


@pytest.fixture(scope="module")
def after_a_wave(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A wave with an item whose test is red, and one that was shipped."""
    made = Project(tmp_path_factory.mktemp("wave"), template)
    red = item("a", testCmd=["false"], prompt="DO pathlib.Path('a.txt').write_bytes(b'\\0w\\n')")
    made.loop("--manifest", made.manifest(red, item("b"), wave_id="w1"))
    return made


@pytest.fixture
def failed(after_a_wave: Project) -> Iterator[Project]:
    """It, and afterwards as it was."""
    patch = after_a_wave.state / "runs" / "w1" / "a" / "work.patch"
    before, branches = patch.read_bytes(), after_a_wave.branches()
    yield after_a_wave
    patch.write_bytes(before)
    for branch in set(after_a_wave.branches()) - set(branches):
        after_a_wave.git("update-ref", "-d", f"refs/heads/{branch}")
    after_a_wave.git("reset", "-q", "--hard", "main")
    after_a_wave.git("clean", "-q", "-fd")


def test_a_failed_item_is_listed_with_all_that_is_known(failed: Project) -> None:
    found = listed(failed)
    work = found.pop("w1/a")
    patch = failed.state / "runs" / "w1" / "a" / "work.patch"
    assert (work["verdict"], work["wave"], work["item"]) == ("failed", "w1", "a")
    assert (work["repo"], work["base"]) == (str(failed.top), failed.git("rev-parse", "HEAD")[:-1])
    assert (work["patch"], work["size"]) == (str(patch), patch.stat().st_size)
    assert work["reason"]
    assert 0 <= work["ageS"] < 60
    (branch,) = found.values()  # the other one was committed, and there is no remote
    assert (branch["kind"], branch["branch"]) == ("branch", failed.branches()[0])
    program = ROOT / "tools" / "recover.py"
    told = run(program, "list", "--state-dir", failed.state, cwd=failed.home)
    assert (told.code, len(told.out.splitlines())) == (0, 2)


def test_the_beginning_of_a_waves_id_is_enough(failed: Project) -> None:
    assert "patch:" in recover(failed, "show", "w/a").out


def test_an_item_alone_is_its_newest_work(failed: Project) -> None:
    assert "name: w1/a\n" in recover(failed, "show", "a").out


@pytest.mark.more
def test_what_a_later_wave_shipped_is_listed_on_demand_only(project: Project) -> None:
    red = item("a", testCmd=["false"])
    project.loop("--manifest", project.manifest(red, wave_id="red"))
    assert "red/a" in listed(project)
    project.loop("--manifest", project.manifest(item("a"), wave_id="green"), "--git")
    assert "red/a" not in listed(project)
    known = json.loads(recover(project, "list", "--all", "--json").out)
    assert ("red/a", "green") in [(one["name"], one["shippedSince"]) for one in known]


@pytest.mark.more
def test_a_restored_branch_is_the_base_with_the_work_and_nothing_else(failed: Project) -> None:
    base = failed.git("rev-parse", "HEAD").strip()
    failed.git("checkout", "-q", "-b", "elsewhere")
    failed.git("commit", "-q", "--allow-empty", "-m", "what came later")
    own = failed.top / ".git"
    before = [(own / name).read_bytes() for name in ("index", "config", "HEAD")]
    assert "recover/a" in recover(failed, "restore", "w1/a").out
    assert failed.git("rev-parse", "recover/a^").strip() == base
    assert failed.git("diff", "--name-only", "recover/a^", "recover/a") == "a.txt\n"
    assert failed.git("show", "recover/a:a.txt") == "\0w\n"
    assert [(own / name).read_bytes() for name in ("index", "config", "HEAD")] == before
    assert failed.git("status", "--porcelain") == ""
    failed.git("checkout", "-q", "main")


@pytest.mark.more
def test_restoring_twice_is_fine_and_no_branch_is_ever_moved(failed: Project) -> None:
    recover(failed, "restore", "w1/a")
    recover(failed, "restore", "w1/a")
    refused = recover(failed, "restore", "w1/a", "--branch", "main", code=2)
    assert len(refused.err.splitlines()) == 1
    recover(failed, "restore", "w1/a", "--branch", "again", "--json")
    assert failed.git("rev-parse", "again") == failed.git("rev-parse", "recover/a")


def test_a_patch_is_written_out_and_applies(failed: Project, tmp_path: Path) -> None:
    target = tmp_path / "out.patch"
    recover(failed, "restore", "w1/a", "--patch", target)
    failed.git("apply", str(target))
    assert (failed.top / "a.txt").read_bytes() == b"\0w\n"
    assert "exists" in recover(failed, "restore", "w1/a", "--patch", target, code=2).err


def test_what_is_shown_has_the_patch(failed: Project) -> None:
    shown = recover(failed, "show", "w1/a").out
    assert "verdict: failed" in shown
    assert "diff --git a/a.txt b/a.txt" in shown


@pytest.mark.more
@linux
def test_the_work_of_a_killed_agent_comes_back(project: Project) -> None:
    kill_a_run(project, "a")
    assert call(gc.main, *project.places()).code == 0
    found = listed(project)
    assert found["killed/a/interrupted"]["reason"] == "its run was killed"
    recover(project, "restore", "killed/a")
    assert project.git("show", "recover/a:a.txt") == "half"


@pytest.mark.more
def test_a_kept_branch_is_listed_until_it_is_merged(project: Project) -> None:
    project.loop("--manifest", project.manifest(item("a"), wave_id="w1"))
    (branch,) = project.branches()
    assert listed(project)[f"w1/{branch}"]["reason"].startswith("no remote")
    assert "already" in recover(project, "restore", f"w1/{branch}", code=2).err
    project.git("merge", "-q", "--ff-only", branch)
    assert listed(project) == {}
    assert recover(project, "list").out == "no saved work\n"


def test_without_its_base_commit_work_is_not_put_on_another(failed: Project) -> None:
    patch = failed.state / "runs" / "w1" / "a" / "work.patch"
    base = failed.git("rev-parse", "HEAD").strip()
    patch.write_bytes(patch.read_bytes().replace(base.encode(), b"0" * 39 + b"1"))
    refused = recover(failed, "restore", "w1/a", code=4).err
    assert "--patch FILE" in refused
    assert len(refused.splitlines()) == 1
    assert "recover/a" not in failed.branches()


@pytest.mark.parametrize("words", [("restore", "w9/x"), ("show", "nothing")])
def test_a_name_that_is_none_is_told_with_those_that_are(
    failed: Project, words: tuple[str, str]
) -> None:
    told = recover(failed, *words, code=2).err
    assert "w1/a" in told
    assert len(told.splitlines()) == 1
