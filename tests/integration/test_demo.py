"""The demo as a newcomer runs it: another folder, no home, nothing but python3 and git."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driver.cli import demo
from state_store.documents.errors import InputError
from tests.support import warm
from tests.support.interpreter import IN_SHELL, PYTHON

SCHEDULER = Path(__file__).resolve().parents[2] / "driver" / "wave_scheduler.py"
TRAILERS = ("Wave-Id", "Item-Id", "Item-Slug", "Test-Command", "Proved-Tree")

pytestmark = [
    pytest.mark.in_walls,
    pytest.mark.skipif(os.name == "nt", reason="needs symbolic links for a bare PATH"),
]


@dataclass(frozen=True)
class Machine:
    """A computer with python3, git and an empty home."""

    folder: Path
    env: dict[str, str]

    def run(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        return warm.run(
            [*PYTHON, SCHEDULER, *argv],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
        )


def a_machine(folder: Path, *, home: bool) -> Machine:
    programs = folder / "bin"
    programs.mkdir(parents=True)
    python = programs / "python3"
    python.write_text(f'#!/bin/sh\nexec {IN_SHELL} "$@"\n')
    python.chmod(0o755)
    (programs / "git").symlink_to(str(shutil.which("git")))
    elsewhere = folder / "some where"
    elsewhere.mkdir()
    (folder / "tmp").mkdir()
    env = {"PATH": str(programs), "TMPDIR": str(folder / "tmp")}
    if home:
        (folder / "home").mkdir()
        env["HOME"] = str(folder / "home")
    return Machine(elsewhere, env)


@dataclass(frozen=True)
class Ran:
    """A demo that was run in a folder of the caller's choice."""

    machine: Machine
    folder: Path
    done: subprocess.CompletedProcess[str]

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.done.stdout)
        return report


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    machine = a_machine(tmp_path_factory.mktemp("machine"), home=True)
    folder = machine.folder / "tide demo"
    return Ran(machine, folder, machine.run("--execute", "--demo", folder.name))


def git(repo: Path, *args: str) -> str:
    done = subprocess.run(["git", "-C", repo, *args], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def unittest_in(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    argv = [*PYTHON, "-m", "unittest", *names]
    return subprocess.run(argv, check=False, cwd=folder, capture_output=True, text=True)


def test_every_item_ships_and_one_of_them_after_a_repair(ran: Ran) -> None:
    assert ran.done.returncode == 0, ran.done.stderr
    wave = ran.report["wave"]
    rounds = {built["slug"]: built["repairs"] for built in wave["built"]}
    assert len(rounds) >= 5
    assert len(ran.report["items_shipped"]) == len(rounds)
    assert wave["repairsUsed"] == 1
    assert {slug for slug, number in rounds.items() if number} == {"round-half-away"}


def test_it_ends_with_what_was_shipped_where_to_look_and_how_to_go_on(ran: Ran) -> None:
    shipped, look, own = ran.done.stderr.splitlines()[-3:]
    assert f"6 of 6 items shipped to branch {ran.report['branch']}" in shipped
    assert str(ran.folder / "repo") in look
    assert f"{SCHEDULER.with_name('tidegate.py')} init, in the top folder of your rep" in own


def test_the_command_it_tells_shows_one_commit_an_item(ran: Ran) -> None:
    command = ran.done.stderr.splitlines()[-2].partition("look: ")[2]
    shown = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert shown.count("Item-Slug: ") == 6
    assert "tide/export.py" in shown


def test_a_clean_clone_of_what_was_pushed_passes_all_its_tests(ran: Ran, tmp_path: Path) -> None:
    remote, clone = str(ran.folder / "remote.git"), tmp_path / "clone"
    git(tmp_path, "clone", "-q", "-b", ran.report["branch"], remote, str(clone))
    tested = unittest_in(clone)
    assert tested.returncode == 0, tested.stderr
    assert "Ran 22 tests" in tested.stderr


def test_every_commit_is_one_item_with_the_tree_that_was_proven(ran: Ran) -> None:
    wanted = [f"%(trailers:key={name},valueonly,separator=)" for name in TRAILERS]
    log = git(
        ran.folder / "remote.git",
        "log",
        f"--format=%T|{'|'.join(wanted)}",
        f"main..{ran.report['branch']}",
    )
    commits = [line.split("|") for line in log.splitlines()]
    assert {fields[3] for fields in commits} == {b["slug"] for b in ran.report["wave"]["built"]}
    for tree, wave_id, item_id, _, command, proved in commits:
        assert wave_id == ran.report["wave_id"]
        assert item_id.startswith("TIDE-")
        assert command.startswith("python3 -m unittest tests.")
        assert proved == tree


def test_the_tracker_knows_what_shipped(ran: Ran) -> None:
    items = json.loads((ran.folder / "state" / "tracker.json").read_text())["items"]
    assert {item["status"] for item in items} == {"in_progress"}


def contents(repo: Path) -> dict[str, str]:
    """Digests of all that is the user's: files, index, config, hooks, HEAD and the branch."""
    kept = [repo / ".git" / name for name in ("index", "config", "HEAD", "refs/heads/main")]
    files = [path for path in repo.rglob("*") if path.is_file() and ".git" not in path.parts]
    hooks = [path for path in (repo / ".git").rglob("hooks/*") if path.is_file()]
    return {
        path.relative_to(repo).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (*kept, *files, *hooks)
    }


def test_a_wave_leaves_checkout_index_and_config_as_they_were(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, home=False)
    folder = demo.make(machine.folder / "demo")
    before = contents(folder / "repo")
    done = machine.run(
        *("--execute", "--max-items", "2", "--repo", folder / "repo"),
        *("--config", folder / "tidegate.toml", "--state-dir", folder / "state"),
    )
    assert done.returncode == 0, done.stderr
    assert contents(folder / "repo") == before


def test_the_same_demo_is_made_every_time(tmp_path: Path) -> None:
    first, second = demo.make(tmp_path / "1"), demo.make(tmp_path / "2")
    for name in ("recording.jsonl", "tidegate.toml", "state/tracker.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()
    assert git(first / "repo", "rev-parse", "HEAD") == git(second / "repo", "rev-parse", "HEAD")
    assert git(first / "repo", "status", "--short", "--branch") == "## main...origin/main"


def test_every_task_is_red_on_the_base(tmp_path: Path) -> None:
    folder = demo.make(tmp_path / "demo")
    for item in json.loads((folder / "state" / "tracker.json").read_text())["items"]:
        assert item["testCmd"][:3] == ["python3", "-m", "unittest"]
        assert unittest_in(folder / "repo", *item["testCmd"][3:]).returncode == 1, item["slug"]


def test_without_a_folder_a_temporary_one_is_kept_and_a_dry_run_ships_nothing(
    tmp_path: Path,
) -> None:
    machine = a_machine(tmp_path, home=False)
    done = machine.run("--demo")
    report = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert len(report["prompts"]) == 6
    (folder,) = (tmp_path / "tmp").glob("tidegate-demo-*")
    assert str(folder) in done.stderr
    assert git(folder / "remote.git", "branch", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize("kind", ["a full folder", "a file", "below a file"])
def test_a_place_that_is_taken_is_refused_and_left_alone(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "taken"
    if kind == "a full folder":
        place.mkdir()
        (place / "mine.txt").write_text("mine")
    else:
        place.write_text("mine")
    with pytest.raises(InputError, match="--demo"):
        demo.make(place / "below" if kind == "below a file" else place)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] in (
        ["mine.txt"],
        ["taken"],
    )


def test_on_the_command_line_a_place_that_is_taken_is_bad_input(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, home=True)
    (machine.folder / "mine.txt").write_text("mine")
    done = machine.run("--execute", "--demo", machine.folder)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "not empty" in done.stderr


def test_without_git_the_folder_stays_empty_and_can_be_named_again(tmp_path: Path) -> None:
    machine = a_machine(tmp_path, home=True)
    (tmp_path / "bin" / "git").unlink()
    done = machine.run("--execute", "--demo", "demo")
    assert done.returncode == 4
    assert "git was not found" in done.stderr
    assert not any((machine.folder / "demo").iterdir())


def test_a_demo_that_did_not_ship_says_so_in_as_many_lines(tmp_path: Path) -> None:
    report = {"items_selected": ["TIDE-1"], "items_shipped": [], "exit_code": 3}
    shipped, look, _ = demo.farewell(tmp_path, report)
    assert shipped == "demo: 0 of 1 items shipped"
    assert "wave/" not in look


def test_another_backend_can_be_named_for_the_demo(tmp_path: Path) -> None:
    folder = demo.make(tmp_path / "demo")
    given = argparse.Namespace(driver="claude", output="report.json", max_items=2, execute=True)
    asked = demo.arguments(given, folder)
    assert (asked.driver, asked.output, asked.max_items) == ("claude", "report.json", 6)
    assert demo.arguments(argparse.Namespace(driver=None), folder).driver == "replay"
