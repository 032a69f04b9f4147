"""The first night of the README, step by step as it is written, in a new repository with an empty
home."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.documents.schemas import ROOT
from tests.support.interpreter import ALONE
from tests.support.programs import Ran, run_here
from tests.support.repos import Checkout, make_repo, user_environ

SECTION = (
    (ROOT / "README.md").read_text("utf-8").split("## A night on your own")[1].split("\n## ")[0]
)
STEPS = re.findall(r"^ {7}(tidegate [^#\n]*)", SECTION, flags=re.MULTILINE)
TITLE = "Round prices to cents"
PRICE = "def price(net):\n    return {}\n"
FILES = {
    "shop/__init__.py": "",
    "tests/__init__.py": "",
    "shop/price.py": PRICE.format("net * 1.19"),
    "tests/test_price.py": (
        "import unittest\n\nfrom shop.price import price\n\n\nclass Price(unittest.TestCase):\n"
        "    def test_it(self):\n        self.assertEqual(price(0.99), 1.18)\n"
    ),
}
AGENT = f"""
import sys
assert {TITLE!r} in sys.stdin.read()
with open("shop/price.py", "w") as file:
    file.write({PRICE.format("round(net * 1.19, 2)")!r})
"""


def backend_of_the_readme(agent: Path) -> str:
    """The README's table for any other program, with its agent replaced by ours."""
    blocks = re.findall(r"^ *```toml\n(.*?)^ *```", SECTION, flags=re.MULTILINE | re.DOTALL)
    (text,) = (block for block in blocks if '"command"' in block)
    written = '["my-agent", "--headless"]'
    assert written in text
    return re.sub("^ +", "", text.replace(written, json.dumps([*ALONE, str(agent)])), flags=re.M)


def typed(repo: Checkout, step: str) -> Ran:
    words = shlex.split(step)[1:]
    return run_here(ROOT / "driver/tidegate.py", *words, cwd=repo.path, env=repo.environ)


def test_the_steps_are_those_that_are_followed() -> None:
    assert [step.split()[1] for step in STEPS] == ["init", "add", "doctor", "plan", "run"]


def test_the_first_night_ships(tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT, encoding="utf-8")
    repo = make_repo(tmp_path / "shop", user_environ(tmp_path / "home"), FILES)
    for step in STEPS:
        done = typed(repo, step)
        assert done.code == 0, (step, done.err, done.out)
        if "init" in step:
            config = repo.path / "tidegate.toml"
            config.write_text(backend_of_the_readme(agent), encoding="utf-8")
    assert "shipped 1 of 1 item" in done.err
    (branch,) = repo.git("branch", "--list", "--format=%(refname:short)", "wave/*").split()
    assert repo.git("log", "-1", "--format=%s", branch) == TITLE
    assert repo.git("status", "--porcelain") == "?? tidegate.toml"


@pytest.mark.parametrize("key", ["Wave-Id", "Item-Id", "Test-Command", "Evidence", "Proved-Tree"])
def test_the_readme_names_the_trailers(key: str) -> None:
    assert f"    {key}: " in SECTION
