"""A small repository in which the commands of the pages are run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.documents.schemas import ROOT
from tests.support.interpreter import ALONE
from tests.support.programs import Ran, run_here
from tests.support.repos import Checkout, make_repo, user_environ

TEST = (
    "import unittest\n\nfrom shop import {0}\n\n\nclass Check(unittest.TestCase):\n"
    "    def test_it(self):\n        self.assertEqual({0}.value(), 2)\n"
)
DEMO = "python driver/wave_scheduler.py --execute --demo beside/demo"
AGENT = """
import os, sys
sys.stdin.read()
item = os.environ["TIDEGATE_ITEM"]
name, value = ("price", 2) if item == "round-prices" else ("cart", 3)
with open(f"shop/{name}.py", "w") as file:
    file.write(f"def value():\\n    return {value}\\n")
"""
ISSUE = {
    **{"number": 7, "title": "Totals are wrong", "labels": [], "state": "OPEN"},
    **{"createdAt": "2026-11-29T08:00:00Z", "url": "https://example.org/7"},
    "body": "Round once.\n\n## Files\n\n- shop/total.py\n\n## Test\n\n    python3 -m unittest\n",
}
FILES = {
    "shop/__init__.py": "",
    "shop/price.py": "def value():\n    return 1\n",
    "shop/cart.py": "def value():\n    return 1\n",
    "tests/__init__.py": "",
    "tests/test_price.py": TEST.format("price"),
    "tests/test_cart.py": TEST.format("cart"),
}
JOURNAL = {"slug": "a", "phase": "verified", "verified": True}


def an_item(number: int, slug: str, name: str) -> dict[str, object]:
    return {
        **{"id": f"T-{number}", "slug": slug, "title": slug, "status": "todo"},
        **{"prompt": "Return 2.", "ownsFiles": [f"shop/{name}.py"], "repairCap": 0},
        "testCmd": f"python3 -m unittest -q tests.test_{name}",
    }


@dataclass(frozen=True)
class Shop:
    """A repository with two items, one of which shipped in a wave, and a folder beside it."""

    repo: Checkout
    report: Mapping[str, Any]
    ran: dict[str, Ran] = field(default_factory=dict)

    @property
    def wave(self) -> str:
        return str(self.report["wave_id"])

    def once(self, command: str) -> Ran:
        """A command that takes long and that several tests look at."""
        if command not in self.ran:
            self.ran[command] = self.run(command)
        return self.ran[command]

    def run(self, command: str) -> Ran:
        """A command of Tidegate, as typed in the top folder of the repository."""
        first, *words = shlex.split(command)
        if first in ("python", "python3"):
            first, *words = ("tidegate", *words[2:]) if words[0] == "-m" else words
        program = ROOT / ("driver/tidegate.py" if first == "tidegate" else first)
        return run_here(program, *words, cwd=self.repo.path, env=self.repo.environ)


def make_shop(top: Path) -> Shop:
    """The repository after its first wave, below `top`."""
    (top / "agent.py").write_text(AGENT, encoding="utf-8")
    command = json.dumps([*ALONE, str(top / "agent.py")])
    config = (
        f'[backend]\nname = "command"\ncommand = {command}\ntier = 1\n'
        f"[workspace]\nroot = {json.dumps(str(top / 'work'))}\n"
    )
    environ = user_environ(top / "home")
    repo = make_repo(top / "shop", environ, {**FILES, "tidegate.toml": config})
    given = Shop(repo, {})
    items = [an_item(1, "round-prices", "price"), an_item(2, "cart", "cart")]
    repo.write({"state/tracker.json": json.dumps({"version": 1, "items": items})})
    (repo.path / ".git/info/exclude").write_text("/state/\n/beside/\n", encoding="utf-8")
    repo.write(
        {
            "beside/issues.json": json.dumps([ISSUE]),
            "beside/backlog/one.md": "---\ntitle: One\n---\nWrite it.\n",
            "beside/items.csv": "title,prompt\nTwo,Write it.\n",
            "beside/report.json": json.dumps({"built": [], "wave_id": "w"}),
            "beside/journal/a.json": json.dumps(JOURNAL),
            "beside/wave.json": json.dumps({"items": [an_item(3, "cart", "cart")]}),
        }
    )
    first = given.run("tidegate run --execute --json")
    assert first.code == 1, first.err
    return Shop(repo, first.report)
