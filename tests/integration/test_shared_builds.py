"""Two items whose builds the user's settings send to one folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.beside import beside
from tests.support.waves import Agent, Scene, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")

# Builds once, as a program does that takes what lies in its build folder for its own.
BUILD = """
out=${CARGO_TARGET_DIR:-$HOME/shared}
mkdir -p $out
test -e $out/built || cat a.txt b.txt > $out/built
test "$(grep -c good $out/built)" -ge $1
"""


@beside
def test_each_agent_and_each_test_checkout_has_a_build_folder_of_its_own(folder: Path) -> None:
    scene = Scene(folder, {"build.sh": BUILD, "a.txt": "bad\n", "b.txt": "bad\n"})
    home = Path(scene.environ["HOME"])
    (home / ".cargo").mkdir(parents=True)
    (home / ".cargo" / "config.toml").write_text(f'[build]\ntarget-dir = "{home}/shared"\n')
    places = dict[str, str]()

    def agent(agent: Agent) -> None:
        name = agent.request.environment["TIDEGATE_ITEM"]
        places[name] = agent.request.environment["CARGO_TARGET_DIR"]
        assert not Path(places[name]).is_relative_to(agent.folder)
        agent.write({f"{name}.txt": "good\n"})

    items = [item(name, f"{name}.txt", ["sh", "build.sh", "1"]) for name in "ab"]
    report, _ = scene.play(dict.fromkeys("ab", agent), items)
    assert verdicts(report) == {"a": "verified", "b": "verified"}
    assert len({*places.values()}) == 2
    assert not (home / "shared").exists()
