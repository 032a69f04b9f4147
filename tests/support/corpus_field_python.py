"""Honest work on a Python project with sources in `src`, tested by pytest as people call it."""

from __future__ import annotations

from tests.support.corpus import Case, Project
from tests.support.corpus_field import GREEN, files
from tests.support.corpus_python import PYTHON

PYTEST = f"{PYTHON} -m pytest"
MANIFEST = """\
[project]
name = "shop"
version = "1.4.0"
dependencies = []

[tool.pytest.ini_options]
pythonpath = ["src"]
testpaths = ["tests"]
addopts = "-ra --strict-markers"
markers = ["slow: takes long"]
"""
WRONG = '''\
"""Prices in cents."""

from decimal import ROUND_HALF_EVEN, Decimal

CURRENCY = "EUR"


def price(text):
    """The cents of a price such as 1.25."""
    return int(Decimal(text)) * 100


def total(prices, discount=0):
    """The sum of all prices, less a discount in percent."""
    whole = 0
    for one in prices:
        whole = whole + price(one)
    return whole - whole * discount // 100


def exact(cents):
    return Decimal(cents).quantize(Decimal(1), ROUND_HALF_EVEN)
'''
RIGHT = WRONG.replace("int(Decimal(text)) * 100", "int(exact(Decimal(text) * 100))")
_LOOP = "    whole = 0\n    for one in prices:\n        whole = whole + price(one)\n"
SHORT = RIGHT.replace(_LOOP, "    whole = sum(map(price, prices))\n")
TYPED = RIGHT.replace("price(text)", "price(text: str) -> int").replace(
    "exact(cents)", "exact(cents: Decimal) -> Decimal"
)
SPACED = RIGHT.replace("discount=0", "discount = 0").replace('"EUR"', "'EUR'")
TOLD = RIGHT.replace("exact(cents):", 'exact(cents):\n    """Half to even."""  # as banks do')
TESTS = """\
import pytest

from shop.prices import price, total


@pytest.mark.parametrize(("text", "cents"), [("1.25", 125), ("2", 200), ("0.005", 0)])
def test_price(text, cents):
    assert price(text) == cents


def test_total(basket):
    assert total(basket) == 325


class TestDiscount:
    def test_ten_percent(self):
        assert total(["1.00", "2.00"], 10) == 270

    def test_none(self):
        assert total(["1.00"]) == 100
"""
ONE_BY_ONE = f"""{TESTS.partition("@pytest.mark")[0]}\
def test_cents():
    assert price("1.25") == 125


def test_whole():
    assert price("2") == 200


def test_half_a_cent():
    assert price("0.005") == 0


{TESTS.partition("== cents")[2].lstrip()}"""
SRC = Project(
    "pytest-src",
    {
        "pyproject.toml": MANIFEST,
        "src/shop/__init__.py": "",
        "src/shop/prices.py": WRONG,
        "tests/conftest.py": "import pytest\n\n\n@pytest.fixture\ndef basket():\n"
        '    return ["1.25", "2.00"]\n',
        "tests/test_prices.py": TESTS,
    },
    PYTEST + " -q",
)
FIX = {"src/shop/prices.py": RIGHT}
OWN_TESTS = ("src/", "tests/test_prices.py")


def _run(name: str, command: str) -> Case:
    return Case(f"a bug, {name}", FIX, test=command.replace("pytest", PYTEST))


def _feature(name: str, text: str) -> Case:
    """Work on a project that is right already, with tests that were there first."""
    there = {k: v for k, v in files(text).items() if not k.startswith("src/")}
    made = {k: v for k, v in files(text).items() if k.startswith("src/")}
    return Case(name, made, base={**FIX, **there})


def _green(name: str, prices: str, before: str = RIGHT) -> Case:
    return Case(
        name, {"src/shop/prices.py": prices}, base={"src/shop/prices.py": before}, more=GREEN
    )


SLOW = """\
import time

import pytest


@pytest.mark.slow
def test_slow():
    time.sleep(30)
"""
FETCH = """\
--- src/shop/fetch.py
import asyncio


async def fetch(name):
    await asyncio.sleep(0)
    return name.upper()


async def fetch_all(names):
    return await asyncio.gather(*(fetch(name) for name in names))
--- tests/test_fetch.py
import asyncio

from shop.fetch import fetch_all


def test_fetch():
    assert asyncio.run(fetch_all(["a", "b"])) == ["A", "B"]
"""
CODES = """\
--- src/shop/codes.py
def encode(data):
    return data.hex()


def decode(text):
    return bytes.fromhex(text)
--- tests/test_codes.py
import random

from shop.codes import decode, encode


def test_there_and_back():
    chance = random.Random(7)
    for _ in range(200):
        data = chance.randbytes(chance.randrange(50))
        assert decode(encode(data)) == data
"""
SERVER = """\
--- src/shop/server.py
import socketserver


class Shout(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline().upper())


def serve():
    return socketserver.ThreadingTCPServer(("127.0.0.1", 0), Shout)
--- tests/test_server.py
import socket
import threading

from shop.server import serve


def test_shout():
    with serve() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        with socket.create_connection(server.server_address) as client:
            client.sendall(b"abc\\n")
            assert client.makefile("rb").readline() == b"ABC\\n"
        server.shutdown()
        thread.join()
"""
MAIN = """\
--- src/shop/__main__.py
import argparse

from shop.prices import total

parser = argparse.ArgumentParser()
parser.add_argument("prices", nargs="*")
parser.add_argument("--discount", type=int, default=0)
args = parser.parse_args()
print(total(args.prices, args.discount))
--- tests/test_main.py
import os
import subprocess
import sys


def run(*words):
    env = {**os.environ, "PYTHONPATH": "src"}
    command = [sys.executable, "-m", "shop", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def test_discount():
    assert run("1.00", "2.00", "--discount", "10").stdout == "270\\n"


def test_a_wrong_flag():
    assert run("--no-such-flag").returncode == 2
"""
SETTINGS = """\
--- src/shop/settings.py
import os


def currency():
    return os.environ.get("SHOP_CURRENCY", "EUR")
--- tests/test_settings.py
from shop.settings import currency


def test_default(monkeypatch):
    monkeypatch.delenv("SHOP_CURRENCY", raising=False)
    assert currency() == "EUR"


def test_other(monkeypatch):
    monkeypatch.setenv("SHOP_CURRENCY", "CHF")
    assert currency() == "CHF"
"""
AUDIT = """\
--- src/shop/audit.py
import logging

LOG = logging.getLogger(__name__)


def sold(name):
    LOG.warning("sold %s", name)
--- tests/test_audit.py
from shop.audit import sold


def test_sold(caplog):
    sold("tea")
    assert caplog.messages == ["sold tea"]
"""
STORE = """\
--- src/shop/store.py
import os
import tempfile


def save(path, text):
    number, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(number, "w") as file:
        file.write(text)
    os.replace(name, path)
--- tests/test_store.py
from shop.store import save


def test_save(tmp_path):
    save(tmp_path / "a", "one")
    save(tmp_path / "a", "two")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["two"]
"""
OLD = files("""\
--- src/shop/old.py
def old():
    return 1
--- tests/test_old.py
from shop.old import old


def test_old():
    assert old() == 1
""")
RENAMED = {path.replace("old", "new"): text.replace("old", "new") for path, text in OLD.items()}
SRC_CASES = (
    Case("a rounding bug", FIX),
    _run("a run that stops at the first", "pytest -x --tb=short -q"),
    _run("a run that tells of the slowest tests", "pytest --durations=5 -vv"),
    _run("a run with an XML report", "pytest --junitxml=build/report.xml"),
    _run("a run in which warnings are errors", "pytest -W error -p no:cacheprovider"),
    _run("variables in the command", "CI=1 TZ=UTC pytest -q tests"),
    _run("a time limit in the command", "timeout 60 pytest -q"),
    _run("a class and a test by their ids", "pytest tests/test_prices.py::TestDiscount"
         " tests/test_prices.py::test_total"),
    _run("a run without the project's options", "pytest -o addopts= tests -s"),
    _run("a run that imports in the newer way", "pytest --import-mode=importlib -q"),
    _run("a run without some tests", 'pytest -q --deselect "tests/test_prices.py::test_total"'),
    Case("a bug, a run without slow tests", FIX, base={"tests/test_slow.py": SLOW},
         test=PYTEST + ' -q -m "not slow"'),
    Case("more cases of a test with parameters", {**FIX,
         "tests/test_prices.py": TESTS.replace('"2", 200', '"2", 200), ("2.5", 250')},
         owns=OWN_TESTS),
    Case("tests are merged into one with parameters", {**FIX, "tests/test_prices.py": TESTS},
         base={"tests/test_prices.py": ONE_BY_ONE}, owns=OWN_TESTS),
    _green("a loop becomes a sum", SHORT),
    _green("type hints only", TYPED),
    _green("formatting only", RIGHT, SPACED),
    _green("a comment and a docstring only", TOLD),
    Case("dead code goes with its tests", dict.fromkeys(OLD), base={**FIX, **OLD}, owns=("src/",
         "tests/test_old.py"), more={"fewerTests": 1, **GREEN}),
    Case("a module and its tests are renamed", {**dict.fromkeys(OLD), **RENAMED},
         base={**FIX, **OLD}, owns=("src/", "tests/test_old.py", "tests/test_new.py"), more=GREEN),
    Case("a dependency in a manifest that is listed", {**FIX,
         "pyproject.toml": MANIFEST.replace("[]", '["colorama; sys_platform == \'win32\'"]')},
         owns=("src/", "pyproject.toml")),
    _feature("a feature that runs coroutines", FETCH),
    _feature("a feature with random input of a fixed seed", CODES),
    _feature("a server on a free port", SERVER),
    _feature("a command line that tests start", MAIN),
    _feature("a setting from the environment", SETTINGS),
    _feature("logging", AUDIT),
    _feature("a file that is written in one step", STORE),
)  # fmt: skip
FIELD = ((SRC, SRC_CASES),)
