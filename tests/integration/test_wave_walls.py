"""Waves inside of walls: the level is told, a broken wall is no red test, a person may edit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from driver.reports.overview import overview
from driver.reports.pages.markdown_page import markdown
from driver.reports.pages.wave_page import page
from driver.reports.summary_lines import summary_lines
from driver.walls.wall import Role
from tests.support.interpreter import IN_SHELL
from tests.support.pipelines import GATE, IMPLEMENT, one
from tests.support.walls import CLOSED_LEVELS, means_of, needs
from tests.support.waves import Agent, Scene, ScriptedDriver, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="walls are made by Linux")

FILES = {"a.txt": "base\n", "check.sh": "grep -q good a.txt\n"}
CHECK = ["sh", "check.sh"]


class Enclosed(ScriptedDriver):
    """A backend whose agents, were they programs, would run inside."""

    encloses = True


def walled(folder: Path, level: str, files: Any = None, config: str = "", **environ: str) -> Scene:
    needs(level)
    given = {"TIDEGATE_SANDBOX_LEVEL": level, **environ}
    return Scene(folder, files or FILES, config=config, environ=given)


def receipts(report: dict[str, Any], slug: str) -> list[dict[str, Any]]:
    attempts = built(report)[slug]["attempts"]
    return [receipt for attempt in attempts for receipt in attempt["evidence"]["receipts"]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", [*CLOSED_LEVELS, "limits", "none"])
def test_the_level_is_in_every_receipt_and_in_the_first_line(tmp_path: Path, level: str) -> None:
    scene = walled(tmp_path, level)
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", CHECK)])
    assert report["shipped"] == ["a"]
    found = {receipt["sandbox"] for receipt in receipts(report, "a")}
    assert len(found) == 1
    assert found.pop().startswith(level)
    assert f"sandbox {level}" in scene.said.getvalue().splitlines()[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("level", [*CLOSED_LEVELS, "limits", "none"])
def test_the_report_says_the_level_and_the_network_of_each_role(tmp_path: Path, level: str) -> None:
    scene = walled(tmp_path, level, config='[sandbox.setup]\nnetwork = "none"\n')
    scripts = {"a": writes(a__txt="good\n")}
    driver = Enclosed(scripts, environ=scene.environ)
    report = scene.run(driver, [item("a", "a.txt", CHECK)])
    walls, (first, second, *_) = report["sandbox"], summary_lines(report)
    assert walls["home"] == "private"
    assert {walls[role]["level"] for role in Role} == {receipts(report, "a")[0]["sandbox"]}
    networks = [walls[role]["network"] for role in Role]
    if level not in CLOSED_LEVELS:
        assert networks == ["host"] * 4
    elif level == "bwrap":
        assert networks == ["host", "loopback", "none", "host"]
    shown = f"sandbox {walls['test']['level']}"
    assert (first, second.partition(";")[0]) == ("shipped 1 of 1 item", shown)
    view = overview(report)
    assert f"<dt>Sandbox</dt><dd>{walls['test']['level']}</dd>" in page(view, None, {})
    assert f"Sandbox `{walls['test']['level']}`." in markdown(view)


@pytest.mark.more
def test_the_report_names_agents_outside_and_a_home_of_ones_own(tmp_path: Path) -> None:
    scene = walled(tmp_path, "landlock", config='[sandbox]\nhome = "host"\n')
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", CHECK)])
    walls = report["sandbox"]
    assert walls["agent"] == {"level": "none", "network": "host"}
    told = f"sandbox {walls['test']['level']}, agent none, your own home; network: agent host"
    assert summary_lines(report)[1].startswith(told)


@pytest.mark.more
@pytest.mark.parametrize("home", ["private", "host"])
def test_without_walls_a_command_still_has_a_home_of_its_own(tmp_path: Path, home: str) -> None:
    files = {"a.txt": "base\n", "check.sh": "touch ~/left $TMPDIR/left; grep good a.txt\n"}
    scene = walled(tmp_path, "none", files, f'[sandbox]\nhome = "{home}"\n')
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", CHECK)])
    assert verdicts(report) == {"a": "verified"}, report
    assert report["sandbox"]["home"] == home
    left = Path(scene.environ["HOME"], "left").exists()
    assert (left, "with your own home" in scene.said.getvalue()) == (home == "host",) * 2


@pytest.mark.more
@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_a_test_reaches_neither_home_nor_checkout_nor_the_state(tmp_path: Path, level: str) -> None:
    hidden = [tmp_path / "repo" / "secret", tmp_path / "home" / "secret", tmp_path / "state" / "x"]
    tries = [f"! cat {path} && {{ echo x >> {path}; touch {path}x; true; }}" for path in hidden]
    steps = [*tries, "touch ~/own $TMPDIR/own", "git log -1", "grep good a.txt"]
    scene = walled(tmp_path, level, {"a.txt": "base\n", "check.sh": " && ".join(steps)})
    scene.state.mkdir()
    for path in hidden:
        path.write_text("s", encoding="utf-8")
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", CHECK)])
    assert verdicts(report) == {"a": "verified"}, report
    assert all(path.read_text(encoding="utf-8") == "s" for path in hidden)
    assert not any(path.with_name(f"{path.name}x").exists() for path in hidden)


def test_a_failed_set_up_says_which_setting_it_wants(tmp_path: Path) -> None:
    needs("landlock")
    config = '[workspace]\nsetup = ["echo x > /usr/x"]\n[sandbox]\nlevel = "landlock"\n'
    scene = Scene(tmp_path, FILES, config=config, environ={"TIDEGATE_SANDBOX_LEVEL": "landlock"})
    report, _ = scene.play({"a": writes(a__txt="good\n")}, [item("a", "a.txt", CHECK)])
    told = f"{report['error']} {[one['error'] for one in report['built']]}"
    assert "the set-up ran inside of walls (landlock" in told
    assert "`readable` or `writable` in [sandbox.setup] would allow" in told


@pytest.mark.more
@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_a_program_on_path_may_be_a_link_to_its_environment(tmp_path: Path, level: str) -> None:
    """As pipx and others install tools. One that another program starts has to be named."""
    needs(level)
    bin_, hidden = tmp_path / "home" / "programs", tmp_path / "home" / "apart"
    own = tmp_path / "home" / "tools" / "mine" / "bin"
    for folder in (bin_, own, hidden):
        folder.mkdir(parents=True)
    (own.parent / "pyvenv.cfg").touch()
    (own.parent / "data").write_text("good\n", encoding="utf-8")
    scripts = {
        own / "mine": f"grep -q good {own.parent}/data && grep -q good a.txt\n",
        hidden / "other": "grep -q good a.txt\n",
        bin_ / "starter": f"exec {hidden}/other\n",
    }
    for path, text in scripts.items():
        path.write_text(f"#!/bin/sh\n{text}", encoding="utf-8")
        path.chmod(0o755)
    (bin_ / "mine").symlink_to(own / "mine")
    scene = walled(tmp_path, level, {**FILES, "b.txt": ""}, PATH=f"{bin_}:{os.environ['PATH']}")
    agents = {"a": writes(a__txt="good\n"), "b": writes(b__txt="good\n")}
    report, _ = scene.play(agents, [item("a", "a.txt", "mine"), item("b", "b.txt", "starter")])
    assert verdicts(report) == {"a": "verified", "b": "undecided"}, report
    told = built(report)["b"]["remedy"]
    assert "`readable`" in told
    assert "in [sandbox.test] would allow" in told


def test_nothing_is_asked_of_an_agent_below_the_required_level(tmp_path: Path) -> None:
    scene = walled(tmp_path, "limits", config='[sandbox]\nrequire = "landlock"\n')
    report, driver = scene.play({"a": writes()}, [item("a", "a.txt", CHECK)])
    assert report["exit_code"] == 4
    assert "[sandbox]" in report["error"]
    assert driver.requests == []


@pytest.mark.more
@pytest.mark.parametrize("level", [*CLOSED_LEVELS, "limits"])
def test_a_phase_may_require_walls_that_keep_files_from_it(tmp_path: Path, level: str) -> None:
    scene = walled(tmp_path, level)
    driver = Enclosed({"a": [writes(a__txt="good\n")]}, environ=scene.environ)
    report = scene.run(driver, [one(IMPLEMENT, {**GATE, "hermetic": "require"})])
    assert report["exit_code"] == (0 if level in CLOSED_LEVELS else 4), report


@pytest.mark.more
def test_a_wall_that_breaks_in_the_middle_is_no_red_test(tmp_path: Path) -> None:
    programs, broken = tmp_path / "programs", tmp_path / "broken"
    programs.mkdir()
    fake = programs / "bwrap"
    fake.write_text(
        f'#!/bin/sh\n[ -e {broken} ] && exit 1\nexec {means_of("bwrap").program} "$@"\n'
    )
    fake.chmod(0o755)
    path = f"{programs}:/usr/bin:/bin"
    scene = walled(tmp_path, "bwrap", PATH=path)

    def breaks(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        broken.touch()

    report, _ = scene.play({"a": breaks}, [item("a", "a.txt", CHECK)])
    record = built(report)["a"]
    assert (record["verdict"], report["shipped"]) == ("undecided", [])
    assert "bwrap" in record["error"]
    # The test may have run on the base before the walls broke.
    later = [one for one in receipts(report, "a") if one["purpose"] != "baseline"]
    assert {receipt["kind"] for receipt in later} == {"could_not_run"}


@pytest.mark.more
@pytest.mark.parametrize("level", [*CLOSED_LEVELS, "none"])
def test_a_person_may_edit_the_checkout_where_nothing_inside_reaches_it(
    tmp_path: Path, level: str
) -> None:
    scene = walled(tmp_path, level)

    def meanwhile(agent: Agent) -> None:
        agent.write({"a.txt": "good\n"})
        scene.repo.git("config", "alias.mine", "!true")  # a person at work
        (scene.repo.path / "check.sh").write_text("a person's edit\n", encoding="utf-8")

    driver = Enclosed({"a": meanwhile}, environ=scene.environ)
    report = scene.run(driver, [item("a", "a.txt", CHECK)])
    shipped = level != "none"
    assert (report["shipped"] == ["a"]) is shipped, built(report)["a"]
    assert ("alias.mine" in (built(report)["a"]["error"] or "")) is not shipped


@pytest.mark.more
@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_items_may_bind_the_same_port_at_the_same_time(tmp_path: Path, level: str) -> None:
    serve = (
        "import socket, time\n"
        "one = socket.create_server(('127.0.0.1', 45123))\n"
        "two = socket.create_connection(('127.0.0.1', 45123))\n"
        "time.sleep(0.3)\n"
        "name = __import__('sys').argv[1]\n"
        "assert open(name).read() == 'good\\n'\n"
    )
    names = ("a", "b", "c", "d")
    files = {"serve.py": serve, **{f"{name}.txt": "base\n" for name in names}}
    config = "[limits]\nmax_parallel_tests = 4\n"
    scene = walled(tmp_path, level, files, config)
    items = [item(name, f"{name}.txt", f"{IN_SHELL} serve.py {name}.txt") for name in names]
    scripts = {name: writes(**{f"{name}__txt": "good\n"}) for name in names}
    report, _ = scene.play(scripts, items)
    assert sorted(report["shipped"] or []) == sorted(names), report
    runs = [one for name in names for one in receipts(report, name)]
    assert all(one["kind"] == "green" for one in runs if one["purpose"] == "proof")


@pytest.mark.more
def test_a_red_test_in_walls_says_so_and_names_the_setting(tmp_path: Path) -> None:
    scene = walled(tmp_path, "landlock")
    report, _ = scene.play({"a": [writes(a__txt="bad\n")] * 3}, [item("a", "a.txt", CHECK)])
    assert "[sandbox.test]" in built(report)["a"]["remedy"]


@pytest.mark.more
@pytest.mark.parametrize("level", CLOSED_LEVELS)
def test_only_the_base_fills_the_compilers_cache_of_later_runs(tmp_path: Path, level: str) -> None:
    compiler = (
        "cache=$HOME/.cache/go-build\nmkdir -p $cache\nls $cache\n"
        "touch $cache/$(cat a.txt)\ngrep -q good a.txt\n"
    )
    scene = walled(tmp_path, level, {"a.txt": "base\n", "check.sh": compiler})
    rounds = [writes(a__txt="bad\n"), writes(a__txt="good\n")]  # the second is after the base
    report, _ = scene.play({"a": rounds}, [item("a", "a.txt", CHECK)])
    assert report["shipped"] == ["a"]
    last = next(one for one in reversed(receipts(report, "a")) if one["purpose"] == "proof")
    printed = Path(last["outputFile"]).read_text("utf-8")
    assert printed.split() == ["base", "testexpire.txt"]


def test_a_wave_without_an_image_does_not_begin(tmp_path: Path) -> None:
    scene = Scene(tmp_path, {"a.txt": "x"}, environ={"TIDEGATE_SANDBOX_LEVEL": "container"})
    report, driver = scene.play({}, [item("a", "a.txt", ["true"])])
    assert report["exit_code"] == 4
    assert "set [sandbox] image" in report["error"]
    assert driver.requests == []
