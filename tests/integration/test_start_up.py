"""Both programs start quickly and from anywhere, and wait for nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.beside import beside, beside_on
from tests.support.interpreter import ALONE, PYTHON
from tests.support.programs import LOOP, ROOT, SCHEDULER, Project, a_project, environment, item, run

on_project = beside_on(a_project)
PROGRAMS = [SCHEDULER, LOOP]
# What --help may load beyond argparse and pathlib: the program, its package, the flags, and how it
# was called.
ALLOWANCE = 6
WAYS = ("file", "isolated", "module", "link", "relative")
ODD_NAME = "Pl\u00e4tze \u65e5\u672c & 'so'"
links = pytest.mark.skipif(sys.platform == "win32", reason="needs symbolic links")


def modules_of(command: Sequence[str], home: Path) -> set[str]:
    """The modules that a Python with these arguments has loaded when it ends."""
    done = subprocess.run(
        [*ALONE, "-X", "importtime", *command],
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.stem))
@beside
def test_help_loads_hardly_more_than_argparse(folder: Path, program: Path) -> None:
    # Saying the help is argparse's own work, and what it loads for that is not ours; nor is what
    # pathlib loads, which some environments have at their start already and a fresh one has not.
    least = "import argparse, pathlib; argparse.ArgumentParser().parse_args(['--help'])"
    more = modules_of([str(program), "--help"], folder) - modules_of(["-c", least], folder)
    assert len(more) <= ALLOWANCE, sorted(more)


# Both find their modules by the same lines.
@pytest.mark.more
@pytest.mark.parametrize(
    ("program", "way"),
    [
        *((SCHEDULER, way) for way in WAYS),
        *(pytest.param(LOOP, way, marks=pytest.mark.sweep) for way in WAYS[1:]),
        (LOOP, WAYS[0]),
    ],
)
@beside
def test_a_program_starts_from_anywhere_in_every_way(folder: Path, program: Path, way: str) -> None:
    env = environment(folder)
    command: tuple[str, ...] = (str(program),)
    if way == "isolated":
        command = ("-I", str(program))
    elif way == "module":
        command = ("-m", f"driver.{program.stem}")
        env["PYTHONPATH"] = str(ROOT)
    elif way == "link":
        if sys.platform == "win32":
            pytest.skip("needs symbolic links")
        link = folder / "other name"
        link.symlink_to(program)
        command = (str(link),)
    elif way == "relative":
        command = (os.path.relpath(program, folder),)
    done = run(command, "--help", cwd=folder, env=env)
    assert (done.code, done.err) == (0, "")
    typed = {"isolated": program, "module": f"-m driver.{program.stem}", "file": program}
    named = f"{Path(sys.executable).name} {typed.get(way, command[0])}"
    assert done.out.partition("[-h]")[0].split() == [
        "usage:",
        *(program.name if way == "link" else named).split(),
    ]
    # --help loads little: that everything else is found as well shows only further on.
    refused = run(command, "--repo", "nowhere", "--manifest" if program == LOOP else "--tracker",
                  "gone.json", cwd=folder, env=env)  # fmt: skip
    assert refused.code == 2
    assert "gone.json" in refused.said() or "nowhere" in refused.said()


@pytest.mark.more
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.stem))
@beside
def test_a_folder_named_like_ours_in_the_current_folder_is_not_taken(
    folder: Path, program: Path
) -> None:
    for name in ("driver", "tools", "state_store"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise SystemExit(99)", encoding="utf-8")
    (folder / "json.py").write_text("raise SystemExit(98)", encoding="utf-8")
    done = run(program, "--repo", "nowhere", "--manifest" if program == LOOP else "--tracker",
               "gone.json", cwd=folder)  # fmt: skip
    assert done.code == 2, done.err


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of the tool in a folder with spaces, quotes and letters beyond ASCII."""
    top = tmp_path_factory.mktemp("odd") / ODD_NAME
    for name in ("driver", "tools", "state_store"):
        shutil.copytree(ROOT / name, top / name)  # and what is compiled of it
    return top


@pytest.mark.more
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.stem))
def test_a_wave_runs_where_every_path_is_odd(
    program: Path, elsewhere: Path, tmp_path: Path, template: Path
) -> None:
    home = tmp_path / ODD_NAME
    home.mkdir()
    project = Project(home, template)
    project.track(item("a"))
    work = (
        ("--execute", "--tracker", project.tracker)
        if program == SCHEDULER
        else ("--git", "--manifest", project.manifest(item("a")))
    )
    done = run(elsewhere / "driver" / program.name, *work, *project.places(), cwd=home)
    assert done.code == 0, done.err
    assert project.branches() == [done.report["branch"]]


@pytest.mark.more
@links
@on_project
def test_a_checkout_reached_through_a_link_works(project: Project) -> None:
    (project.home / "tool").symlink_to(ROOT)
    project.track(item("a"))
    program = project.home / "tool" / "driver" / "wave_scheduler.py"
    done = run(program, "--tracker", project.tracker, *project.places(), cwd=project.home)
    assert done.code == 0, done.err


@pytest.mark.more
@on_project
def test_nothing_waits_for_a_terminal_an_editor_or_a_home(project: Project) -> None:
    project.track(item("a"))
    waits = f"{sys.executable} -c 'import time; time.sleep(600)'"
    names = (
        *("EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "PAGER", "GIT_PAGER"),
        *("GIT_ASKPASS", "SSH_ASKPASS"),
    )
    env = environment(project.home, **dict.fromkeys(names, waits))
    del env["HOME"]
    done = project.schedule(env=env, stdin=subprocess.DEVNULL)
    assert done.code == 0, done.err
    assert project.branches() == [done.report["branch"]]


@pytest.mark.more
@on_project
def test_variables_of_git_do_not_lead_astray(project: Project) -> None:
    """As in a hook, where git has set them for another repository."""
    project.track(item("a"))
    astray = {"GIT_DIR": str(project.home / "x"), "GIT_INDEX_FILE": str(project.home / "y")}
    astray |= {"GIT_WORK_TREE": str(project.home)}
    done = project.schedule(env=environment(project.home, **astray))
    assert done.code == 0, done.err
    assert project.branches() == [done.report["branch"]]


@pytest.mark.more
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.stem))
@beside
def test_the_demo_needs_an_empty_folder(folder: Path, program: Path) -> None:
    pytest.importorskip("driver.cli.demo")
    kept = folder / "mine.txt"
    kept.write_text("mine", encoding="utf-8")
    done = run(program, "--demo", str(folder), cwd=folder, env=environment(folder))
    assert done.code == 2
    assert str(folder) in done.said()
    assert json.loads(done.out)["exit_code"] == 2
    assert {path.name for path in folder.iterdir()} == {"mine.txt", "home"}


LOOKERS = {
    "cost_projection.py": ["--projection"],
    "fleet_ledger.py": ["summary"],
    "doctor.py": [],
    "gc.py": ["--dry-run"],
    "recover.py": ["list"],
    "reproduce.py": ["w", "a"],
    "state.py": ["items"],
    "verify_state.py": [],
}


@pytest.mark.more
@links
@pytest.mark.parametrize("program", [*PROGRAMS, *(ROOT / "tools" / name for name in LOOKERS)])
@beside
def test_a_current_folder_that_is_gone_is_one_sentence(folder: Path, program: Path) -> None:
    words = ["--execute"] if program == SCHEDULER else LOOKERS.get(program.name, [])
    gone = folder / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD" && exec "$@"'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *PYTHON, str(program), *words],
        cwd=gone,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (4, False), done.stderr
    assert "the current folder was removed" in done.stderr
