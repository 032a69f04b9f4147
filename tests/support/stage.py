"""A wave of a real `wave_loop.py` whose agents and tests hang, each in its own way, until the file
`quick` lies in its folder."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import warm
from tests.support.interpreter import PYTHON
from tests.support.processes import MARKER, Marked, eventually
from tests.support.programs import LOOP
from tests.support.waves import Scene, item

WAITING_S = 60.0  # for other processes on a busy machine; nothing is measured by it

# Notes that it began. An item's name says how its agent hangs; those of `done` and `tested` do not.
AGENT = """
echo $TIDEGATE_ITEM >> FOLDER/begun.log
echo good > $TIDEGATE_ITEM.txt
[ -e FOLDER/quick ] && exit 0
case $TIDEGATE_ITEM in
    done*|tested*) exit 0;;
    deaf*) trap '' TERM INT HUP; setsid sh -c "trap '' TERM INT HUP; while :; do sleep 60; done" &;;
    forks*) sleep 60 & (setsid sleep 60 &);;
esac
touch FOLDER/hangs-$TIDEGATE_ITEM
while :; do sleep 60; done
"""
PASSES = "test -s {0}.txt"
HANGS = "if [ ! -e FOLDER/quick ]; then trap '' TERM INT && touch FOLDER/tests-{0} && sleep 60; fi"


class Stage:
    """A repository and a configuration; `config` goes on behind the table [verify]."""

    def __init__(self, folder: Path, config: str, *, remote: bool = False) -> None:
        self.folder = folder
        self.scene = Scene(folder, {"base.txt": "base\n"}, remote=remote)
        self.marked = Marked(folder)
        self.state = folder / "state"
        agent = folder / "agent.sh"
        agent.write_text(AGENT.replace("FOLDER", str(folder)), encoding="utf-8")
        (folder / "tidegate.toml").write_text(
            f'[backend]\nname = "command"\ncommand = ["sh", "{agent}"]\ntier = 1\n'
            f'env = ["{MARKER}"]\n[verify]\nenv = ["{MARKER}"]\n{config}',
            encoding="utf-8",
        )

    def plan(self, tests: Mapping[str, str], **more: Any) -> None:
        """Write the manifest: an item for each slug and its test."""
        items = [
            item(slug, f"{slug}.txt", test.replace("FOLDER", str(self.folder)).format(slug), **more)
            for slug, test in tests.items()
        ]
        (self.folder / "m.json").write_text(json.dumps({"items": items}), encoding="utf-8")

    @contextmanager
    def started(
        self, *flags: str, under: Iterable[str] = (), fail: str = ""
    ) -> Iterator[warm.Program]:
        """The program at work; whatever becomes of it, it is gone at the end."""
        where = ("--manifest", "m.json", "--config", "tidegate.toml", "--state-dir", "state")
        env = {**self.scene.environ, MARKER: self.marked.marker, "PYTHONDONTWRITEBYTECODE": "1"}
        with (
            (self.folder / "said").open("w", encoding="utf-8") as said,
            warm.start(
                [*under, *PYTHON, LOOP, "--git", "--repo", "repo", *where, *flags],
                cwd=self.folder,
                env=env | ({"TIDEGATE_FAIL": fail} if fail else {}),
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            ) as program,
        ):
            try:
                yield program
            finally:
                program.kill()

    def hang(self, agents: Iterable[str] = (), tests: Iterable[str] = ()) -> bool:
        """Wait until all of these hang."""
        signs = [f"hangs-{slug}" for slug in agents] + [f"tests-{slug}" for slug in tests]
        return eventually(lambda: all((self.folder / sign).exists() for sign in signs), WAITING_S)

    def said(self) -> str:
        return (self.folder / "said").read_text(encoding="utf-8")

    def begun(self) -> Counter[str]:
        """How many agents began, by slug."""
        return Counter((self.folder / "begun.log").read_text(encoding="utf-8").split())

    def next_run(self, *flags: str) -> dict[str, Any]:
        """Another run, in which nobody hangs; its report."""
        (self.folder / "quick").touch()
        with self.started(*flags) as program:
            out, _ = program.communicate(timeout=WAITING_S)
        assert program.returncode == 0, self.said()
        report: dict[str, Any] = json.loads(out)
        return report
