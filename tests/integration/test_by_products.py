"""What agents' programs leave in the place of an item is no offence and never shipped."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.support.beside import beside, beside_on
from tests.support.waves import Agent, Scene, built, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")
FILES = {"src/a.txt": "base\n", ".claude/settings.json": "{}\n"}
A_GOOD = "grep -q good src/a.txt"
LEFT = {
    ".aider.chat.history.md": "# chat\n",
    ".claude/settings.local.json": "{}\n",
    ".DS_Store": "x",
    "src/.DS_Store": "x",
    ".coverage": "x",
    "htmlcov/status.json": "{}\n",
    "htmlcov/index.html": "x",
    ".venv/pyvenv.cfg": "home = /usr\n",
    ".venv/lib/site-packages/x.py": "x = 1\n",
    "node_modules/.package-lock.json": "{}\n",
    "node_modules/x/index.js": "x\n",
    ".pytest_cache/v/x": "x",
}

on_scene = beside_on(lambda folder: nullcontext(Scene(folder, FILES)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("owns", ["src/a.txt", "src/"])
@on_scene
def test_what_programs_leave_is_left_out_and_told_once(scene: Scene, owns: str) -> None:
    rounds = [
        lambda agent: agent.write({**LEFT, "src/a.txt": "bad\n"}),
        lambda agent: agent.write({"src/a.txt": "good\n"}),
    ]
    report, _ = scene.play({"a": rounds}, [item("a", owns, A_GOOD, repairCap=1)])
    [shipped] = report["shipped_repos"]
    assert scene.files_in(shipped["sha"]) == {"src/a.txt": "M"}
    first, last = built(report)["a"]["attempts"]
    assert (first["verdict"], last["notes"]) == ("failed", [])
    [note] = first["notes"]
    assert note.startswith("left out of its work, as programs leave it behind: ")
    named = (".aider.chat.history.md", ".claude/settings.local.json", "htmlcov/", "node_modules/")
    assert all(f"{name} (" in note for name in (*named, ".DS_Store", "src/.DS_Store", ".venv/"))
    assert scene.said.getvalue().count(".aider.chat.history.md") == 1


@pytest.mark.more
@pytest.mark.parametrize(
    "path", ["CLAUDE.md", ".claude/settings.json", ".claude/hooks/x.sh", "node_modules/x/index.js"]
)
@on_scene
def test_what_steers_agents_or_tests_stays_an_offence(scene: Scene, path: str) -> None:
    agent = lambda agent: agent.write({"src/a.txt": "good\n", path: "x\n"})  # noqa: E731
    report, _ = scene.play({"a": agent}, [item("a", "src/a.txt", A_GOOD, repairCap=0)])
    assert verdicts(report) == {"a": "refused"}
    assert path in built(report)["a"]["error"]


@pytest.mark.more
@beside
def test_the_project_may_name_more(folder: Path) -> None:
    scene = Scene(folder, FILES, config='[workspace]\nleftovers = ["*.log", "scratch/"]\n')
    agent = lambda agent: agent.write(  # noqa: E731
        {"src/a.txt": "good\n", "x/build.log": "x\n", "scratch/y": "y\n"}
    )
    report, _ = scene.play({"a": agent}, [item("a", "src/a.txt", A_GOOD)])
    assert report["shipped"] == ["a"]
    assert (
        "scratch/ (named in [workspace] leftovers)" in built(report)["a"]["attempts"][0]["notes"][0]
    )


@pytest.mark.more
@beside
def test_what_the_set_up_installs_is_not_told_as_the_agents(folder: Path) -> None:
    made = "mkdir -p node_modules/x && touch node_modules/.package-lock.json node_modules/x/y.js"
    scene = Scene(folder, FILES, config=f'[workspace]\nsetup = ["{made}"]\n')
    agent = lambda agent: agent.write(  # noqa: E731
        {"src/a.txt": "good\n", "node_modules/x/z.js": "x\n"}
    )
    report, _ = scene.play(
        {"a": agent}, [item("a", "src/a.txt", f"test -e node_modules/x/y.js && {A_GOOD}")]
    )
    assert report["shipped"] == ["a"]
    assert built(report)["a"]["attempts"][0]["notes"] == []


@pytest.mark.more
@on_scene
def test_an_agents_git_ignores_what_aider_would_have_the_project_ignore(scene: Scene) -> None:
    seen: list[int] = []

    def agent(agent: Agent) -> None:
        exclude = (agent.folder / ".git" / "info" / "exclude").read_text()
        seen.append(exclude.splitlines().count(".aider*"))
        agent.write({"src/a.txt": "good\n"})

    report, _ = scene.play({"a": agent}, [item("a", "src/a.txt", A_GOOD)])
    assert (report["shipped"], seen) == (["a"], [1])
