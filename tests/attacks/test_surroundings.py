"""What lies around a proving tree, and makes a test green that is red anywhere else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.waves import Agent, Scene, built, item, verdicts, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a POSIX shell")

PRICE = """
import unittest
from shop.price import price
class Price(unittest.TestCase):
    def test_price(self): self.assertEqual(price(2), 2)
"""
SHOP = {
    "src/shop/__init__.py": "",
    "src/shop/price.py": "def price(x):\n    return x\n",
    "tests/test_price.py": PRICE,
}
UNITTEST = [sys.executable, "-m", "unittest", "discover", "-s", "tests"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "tests"]


@pytest.mark.parametrize("command", [UNITTEST, PYTEST])
def test_a_test_that_imports_another_checkout_proves_nothing(
    tmp_path: Path, command: list[str]
) -> None:
    scene = Scene(
        tmp_path,
        SHOP,
        config='[verify]\nenv = ["PYTHONPATH"]\n',
        environ={"PYTHONPATH": str(tmp_path / "repo" / "src")},
    )
    broken = lambda agent: agent.write({"src/shop/price.py": "no Python\n"})  # noqa: E731
    report, _ = scene.play({"a": broken}, [item("a", "src/shop/price.py", command)])
    assert verdicts(report) == {"a": "undecided"}
    assert f"{tmp_path}/repo/src/shop/price.py in place of" in built(report)["a"]["error"]


@pytest.mark.parametrize("command", [UNITTEST, PYTEST])
def test_a_test_that_imports_the_tree_is_believed(tmp_path: Path, command: list[str]) -> None:
    scene = Scene(tmp_path, SHOP, config='[verify]\nenv = ["PYTHONPATH"]\n')
    scene.environ["PYTHONPATH"] = "src"
    better = lambda agent: agent.write({"src/shop/price.py": "def price(x): return +x\n"})  # noqa: E731
    report, _ = scene.play({"a": better}, [item("a", "src/shop/price.py", command)])
    assert verdicts(report) == {"a": "verified"}
