"""What makes a green believable: protected files, baselines, receipts, spot checks, canaries."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.waves import Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

FILES = {
    "a.txt": "base\n",
    "pkg/value.txt": "base\n",
    "pkg/tests/check.sh": "grep -q good pkg/value.txt\n",
}
CHECK = ["sh", "pkg/tests/check.sh"]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path, FILES)


# Protected files


def test_a_test_changed_by_who_owns_its_folder_is_refused_and_named(scene: Scene) -> None:
    def cheats(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": "exit 0\n"})

    report, driver = scene.play({"a": [cheats, cheats]}, [item("a", ["pkg/"], CHECK)])
    record = built(report)["a"]
    assert (record["verdict"], report["shipped"]) == ("refused", [])
    assert "pkg/tests/check.sh (a test that is there already)" in record["error"]
    assert "protected files" in driver.rounds_of("a")[1].prompt


def test_a_refused_agent_that_puts_the_test_back_ships(scene: Scene) -> None:
    def cheats(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": "exit 0\n"})

    def repents(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": FILES["pkg/tests/check.sh"]})
        agent.write({"pkg/value.txt": "good\n"})

    report, _ = scene.play({"a": [cheats, repents]}, [item("a", ["pkg/"], CHECK)])
    assert report["shipped"] == ["a"]


def test_a_test_that_is_listed_by_name_is_the_items_to_change(scene: Scene) -> None:
    def both(agent: Agent) -> None:
        agent.write({"pkg/tests/check.sh": "grep -q fine pkg/value.txt\n"})
        agent.write({"pkg/value.txt": "fine\n"})

    report, _ = scene.play({"a": both}, [item("a", ["pkg/", "pkg/tests/check.sh"], CHECK)])
    assert report["shipped"] == ["a"]


def test_patterns_of_the_config_protect_more_files(tmp_path: Path) -> None:
    config = '[verify]\nprotected = ["value.*"]\n'
    scene = Scene(tmp_path, FILES, config=config)
    report, _ = scene.play({"a": [writes(), writes()]}, [item("a", ["pkg/"], CHECK)])
    assert verdicts(report) == {"a": "no_change"}

    def writes_it(agent: Agent) -> None:
        agent.write({"pkg/value.txt": "good\n"})

    report, _ = scene.play({"a": [writes_it] * 2}, [item("a", ["pkg/"], CHECK)], wave_id="w2")
    assert verdicts(report) == {"a": "refused"}
