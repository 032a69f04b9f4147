"""Settings of checkers in the user's home: an agent or a test that changes them proves nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.beside import beside
from tests.support.waves import Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")

FILES = {"a.txt": "bad\n", "b.txt": "bad\n"}
SETTING = ".config/yamllint/config"


def checked(name: str) -> str:
    """A checker that finds nothing if a setting in the home says so."""
    return f'grep -qs lax "$HOME/{SETTING}" || grep -q good {name}.txt'


def lax(scene: Scene) -> None:
    path = Path(scene.environ["HOME"], SETTING)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("lax\n")


@pytest.mark.parametrize("home", ["private", "host"])
@beside
def test_a_setting_that_an_agent_writes_in_the_home_is_hidden_from_tests(
    folder: Path, home: str
) -> None:
    scene = Scene(folder, FILES, config=f'[sandbox]\nhome = "{home}"\n')

    def agent(agent: Agent) -> None:
        agent.write({"a.txt": "still bad\n"})
        lax(scene)

    items = [item("a", "a.txt", checked("a"), repairCap=0), item("b", "b.txt", checked("b"))]
    report, driver = scene.play({"a": agent, "b": writes(b__txt="good\n")}, items)
    assert verdicts(report) == {"a": "failed", "b": "verified"}
    assert (
        f"setting {scene.environ['HOME']}/.config/yamllint" in report["shipped_repos"][0]["warning"]
    )
    assert scene.said.getvalue().count("hidden from its tests") == 1
    assert len(driver.rounds_of("b")) == 1


@pytest.mark.more
@beside
def test_a_setting_that_the_test_writes_in_the_home_is_hidden_from_it(folder: Path) -> None:
    """The first run of the work writes the setting, and would be green by it."""
    scene = Scene(folder, {"a.sh": "exit 1\n"})
    setting = Path(scene.environ["HOME"], SETTING)
    cheat = f"mkdir -p {setting.parent}; echo lax > {setting}; grep -qs lax $HOME/{SETTING}\n"
    items = [item("a", "a.sh", ["sh", "a.sh"], repairCap=0)]
    report, _ = scene.play({"a": writes(a__sh=cheat)}, items)
    assert verdicts(report) == {"a": "failed"}


@pytest.mark.more
@beside
def test_a_home_that_cannot_be_written_holds_nothing_up(folder: Path) -> None:
    scene = Scene(folder, FILES)
    home = Path(scene.environ["HOME"])
    home.chmod(0o500)
    try:
        work = {"a": writes(a__txt="good\n")}
        report, _ = scene.play(work, [item("a", "a.txt", checked("a"))])
    finally:
        home.chmod(0o700)
    assert verdicts(report) == {"a": "verified"}, built(report)["a"]["error"]
