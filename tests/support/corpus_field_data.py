"""Honest work on Python projects whose tests look at data, and what agents leave beside it."""

from __future__ import annotations

from tests.support.corpus import Case, Project
from tests.support.corpus_field import GREEN, files
from tests.support.corpus_python import PYTHON

LIBRARY = files("""\
--- library/__init__.py
--- library/words.py
import json
from pathlib import Path

LANGUAGES = Path(__file__).parent / "languages"


def words(language):
    return json.loads((LANGUAGES / f"{language}.json").read_text("utf-8"))


def greet(name, language="en"):
    return f"{words(language)['hello']}, {name}"
--- library/languages/en.json
{
  "hello": "Hello",
  "bye": "Goodbye"
}
--- library/languages/de.json
{
  "hello": "Hallo"
}
--- library/stock.py
import csv


def stock(path):
    with open(path, newline="", encoding="utf-8") as file:
        return {row["name"]: int(row["count"]) for row in csv.DictReader(file)}
--- data/stock.csv
name,count
tea,3
coffee,
--- tests/__init__.py
--- tests/test_words.py
from library.words import LANGUAGES, greet, words


def test_every_language_has_all_words():
    for path in LANGUAGES.glob("*.json"):
        assert words(path.stem).keys() == words("en").keys(), path.name


def test_greet():
    assert greet("Ann") == "Hello, Ann"
--- tests/test_stock.py
from pathlib import Path

from library.stock import stock


def test_stock():
    assert min(stock("data/stock.csv").values()) >= 0


def test_names_are_short():
    assert max(map(len, stock(Path("data") / "stock.csv"))) < 20
""")
DATA = Project("pytest-data", LIBRARY, f"{PYTHON} -m pytest -q")
GERMAN = {"library/languages/de.json": '{\n  "hello": "Hallo",\n  "bye": "Tsch\u00fc\u00df"\n}\n'}
STOCK = {"data/stock.csv": "name,count\ntea,3\ncoffee,0\n"}
FIX = {**GERMAN, **STOCK}
PALETTE = """\
import struct
import zlib


def chunk(kind, data):
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))


pixels = b"".join(b"\\0" + bytes([x * 16, y * 16, 90] * 1)
                  for y in range(16) for x in range(1))
head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 16, 8, 2, 0, 0, 0))
image = b"\\x89PNG\\r\\n\\x1a\\n" + head + chunk(b"IDAT", zlib.compress(pixels))
with open("library/logo.png", "wb") as file:
    file.write(image + chunk(b"IEND", b""))
"""
LOGO_TEST = """\
from pathlib import Path


def test_logo():
    image = Path("library/logo.png").read_bytes()
    assert image.startswith(b"\\x89PNG") and image.endswith(b"IEND\\xaeB`\\x82")
"""
SNAPSHOT = files("""\
--- tests/snapshots/receipt.txt
tea          3
coffee       0
--- tests/test_receipt.py
from pathlib import Path

from library.receipt import receipt


def test_receipt():
    wanted = (Path(__file__).parent / "snapshots/receipt.txt").read_text()
    assert receipt({"tea": 3, "coffee": 0}) == wanted
""")
RECEIPT = (
    'def receipt(stock):\n    return "".join(f"{name:{WIDTH}} {count}\\n"'
    " for name, count in stock.items())\n"
)
NARROW, WIDE = f"WIDTH = 12\n\n\n{RECEIPT}", f"WIDTH = 16\n\n\n{RECEIPT}"
WIDE_SNAPSHOT = "tea              3\ncoffee           0\n"
MIGRATED = files("""\
--- migrations/001_books.sql
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT NOT NULL);
--- tests/test_migrations.py
import sqlite3
from pathlib import Path


def test_all_migrations_in_order():
    with sqlite3.connect(":memory:") as database:
        for path in sorted(Path("migrations").glob("*.sql")):
            database.executescript(path.read_text())
        names = [row[1] for row in database.execute("PRAGMA table_info(books)")]
    assert names == ["id", "title", "year"]
""")
TODAY = files("""\
--- library/today.py
import datetime


def year():
    return datetime.datetime.now(tz=datetime.UTC).year
--- tests/test_today.py
import time

from library.today import year


def test_year():
    begin = time.monotonic()
    assert abs(year() - time.gmtime().tm_year) <= 1
    assert time.monotonic() - begin < 20
""")
BOOKS = """\
from library.search import count


def test_count():
    with open("data/text.txt", encoding="utf-8") as file:
        assert count(file, "whale") == 6000
"""
SEARCH = "def count(lines, word):\n    return sum(line.count(word) for line in lines)\n"
REPORT = files("""\
--- library/report.py
def report(count):
    for number in range(count):
        print(f"line {number}: FAILED 0, ERROR 0, ok")
--- tests/test_report.py
from library.report import report


def test_report(capsys):
    report(3000)
    out = capsys.readouterr().out
    print(out)
    assert out.count("\\n") == 3000
""")
DOCTEST = {"pytest.ini": "[pytest]\naddopts = --doctest-modules\ntestpaths = library tests\n"}
ROMAN = '''\
def roman(number):
    """The number in Roman digits.

    >>> roman(4)
    'IV'
    >>> [roman(n) for n in (1, 9, 40)]
    ['I', 'IX', 'XL']
    """
    text = ""
    for value, digits in PAIRS:
        while number >= value:
            text, number = text + digits, number - value
    return text
'''
PAIRS = 'PAIRS = ((40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I"))\n\n\n'
TOX_INI = {"tox.ini": "[tox]\nenvlist = py311\n\n[pytest]\npython_files = check_*.py\n"}
CHECKS = {"tests/check_words.py": LIBRARY["tests/test_words.py"]}
SETUP_CFG = {"setup.cfg": "[tool:pytest]\naddopts = -q -W error\ntestpaths = tests\n"}
OLD_CALL = {
    "library/old.py": 'import warnings\n\n\ndef old():\n    warnings.warn("old", '
    "DeprecationWarning)\n    return 1\n\n\ndef new():\n    return old()\n",
    "tests/test_old.py": "from library.old import new\n\n\ndef test_new():\n"
    "    assert new() == 1\n",
}
NEW_CALL = OLD_CALL["library/old.py"].replace("return old()", "return 1")


def _left(name: str, script: str) -> Case:
    return Case(f"an agent leaves {name}", FIX, script=script)


DATA_CASES = (
    Case("a word in another language and a number in a table", FIX),
    Case("a table with line ends of Windows", {**GERMAN,
         "data/stock.csv": STOCK["data/stock.csv"].replace("\n", "\r\n")}),
    Case("data files that are listed one by one", FIX,
         owns=("library/languages/de.json", "data/stock.csv")),
    Case("a language is added", {**FIX, "library/languages/pt-BR.json":
         '{\n  "hello": "Ol\u00e1",\n  "bye": "At\u00e9 mais"\n}\n'}),
    Case("a picture", FIX, base={"tests/test_logo.py": LOGO_TEST, "tools/paint.py": PALETTE},
         script=f"{PYTHON} tools/paint.py"),
    Case("a picture is replaced", {}, base={**FIX, "tests/test_logo.py": LOGO_TEST,
         "tools/paint.py": PALETTE, "library/logo.png": "none"}, script=f"{PYTHON} tools/paint.py"),
    Case("a layout and its snapshot", {**FIX, "library/receipt.py": WIDE,
         "tests/snapshots/receipt.txt": WIDE_SNAPSHOT},
         base={**SNAPSHOT, "library/receipt.py": NARROW},
         owns=("library/", "data/", "tests/snapshots/receipt.txt")),
    Case("a migration is added", {**FIX,
         "migrations/002_year.sql": "ALTER TABLE books ADD COLUMN year INTEGER;\n"}, base=MIGRATED),
    Case("code and tests that read the clock", {"library/today.py": TODAY["library/today.py"]},
         base={**FIX, "tests/test_today.py": TODAY["tests/test_today.py"]}),
    Case("a text of 300 KB", {"library/search.py": SEARCH}, base={**FIX,
         "tests/test_search.py": BOOKS},
         script="yes 'call me Ishmael, said the white whale to the sea' | head -n 6000 >"
         " data/text.txt"),
    Case("examples in docstrings", {**FIX, "library/roman.py": PAIRS + ROMAN},
         base={**DOCTEST, "library/roman.py": PAIRS.replace('(4, "IV"), ', "") + ROMAN}),
    Case("a project that names its test files otherwise", FIX, base={**TOX_INI, **CHECKS}),
    Case("warnings are errors by setup.cfg", {**FIX, "library/old.py": NEW_CALL},
         base={**OLD_CALL, **SETUP_CFG}),
    Case("folders and files with spaces in their names", {**FIX,
         "data/price lists/spring 2026.csv": "name,price\ntea,2\n", "data/notes (old).txt": "-\n"}),
    Case("packages of tests with empty files", {**FIX, "tests/api/__init__.py": "",
         "tests/api/v1/__init__.py": "", "tests/api/v1/test_v1.py":
         "from library import words\n\n\ndef test_v1():\n    assert words.greet('B')\n"}),
    Case("a folder is deleted", {"data/old/a.csv": None, "data/old/b.csv": None, **FIX},
         base={"data/old/a.csv": "1\n", "data/old/b.csv": "2\n"}),
    Case("a folder moves", {"data/stock.csv": None, "library/data/stock.csv": "name,count\ntea,1\n",
         "tests/test_stock.py": LIBRARY["tests/test_stock.py"].replace('"data/', '"library/data/')
         .replace('Path("data")', 'Path("library/data")'), **GERMAN},
         owns=("./", "tests/test_stock.py")),
    Case("a file becomes a link to another", {"library/languages/de.json": None, **STOCK},
         script="ln -s en.json library/languages/de.json"),
    Case("a script gets its executable bit and nothing else", {}, base={**FIX,
         "tools/run.sh": "#!/bin/sh\nexit 0\n", "tests/test_tools.py":
         "import subprocess\n\n\ndef test_run():\n    subprocess.check_call(['tools/run.sh'])\n"},
         script="chmod +x tools/run.sh"),
    _left("caches of Python's tools", "mkdir -p .mypy_cache/3.11 .ruff_cache .pytest_cache/v"
          " library/__pycache__ && echo 1 > .mypy_cache/3.11/a.json && echo 1 >"
          " .ruff_cache/CACHEDIR.TAG && echo 1 > .pytest_cache/v/a && echo 1 >"
          " library/__pycache__/words.cpython-311.pyc"),
    _left("a coverage report", "mkdir htmlcov && echo '<p>' > htmlcov/index.html && echo 1 >"
          " .coverage && echo '<c/>' > coverage.xml"),
    _left("files of an editor and of the desktop", "mkdir .idea .vscode && echo 1 >"
          " .idea/workspace.xml && echo '{}' > .vscode/settings.json && echo 1 > .DS_Store &&"
          " echo 1 > library/.words.py.swp && echo 1 > library/words.py~"),
    _left("its own history", "echo hi > .aider.chat.history.md && echo hi > .aider.input.history"
          " && mkdir .aider.tags.cache.v4 && echo 1 > .aider.tags.cache.v4/cache.db"),
    _left("a virtual environment", "mkdir -p .venv/bin .venv/lib/python3.11/site-packages && echo"
          " 'home = /usr/bin' > .venv/pyvenv.cfg && echo 'x = 1' >"
          f" .venv/lib/python3.11/site-packages/six.py && ln -s {PYTHON} .venv/bin/python"),
    _left("products of a build", "mkdir -p build/lib dist library.egg-info && echo 1 >"
          " build/lib/a.py && echo 1 > dist/library-1.0.tar.gz && echo 1 >"
          " library.egg-info/PKG-INFO && echo 1 > library.egg-info/SOURCES.txt"),
    Case("an agent that commits", FIX, script="git add -A . && git commit -q -m 'Add words'"),
    Case("an agent that commits twice on a branch of its own", GERMAN, script="git checkout -q -b"
         " words && git commit -q -am 'Add words' && printf 'name,count\\ntea,3\\n' >"
         " data/stock.csv && git commit -q -am 'Count'"),
    Case("an agent that only stages its work", FIX, script="git add -A ."),
    Case("an agent that looks at the history", FIX, script="git log -1 >/dev/null && git diff"
         " --stat && git status --short && git stash -q && git stash pop -q"),
    Case("output of many lines", {"library/report.py": REPORT["library/report.py"]},
         base={**FIX, "tests/test_report.py": REPORT["tests/test_report.py"]}),
    Case("a red test that the command does not run", {**GERMAN},
         test=f"{PYTHON} -m pytest -q tests/test_words.py"),
    Case("only documents", {"README.md": "# Library\n\nSee [usage](docs/usage.md).\n",
         "docs/usage.md": "# Usage\n\n    python -m library\n"}, base=FIX, more=GREEN),
)  # fmt: skip
FIELD = ((DATA, DATA_CASES),)
