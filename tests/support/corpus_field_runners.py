"""Honest work on Python projects tested by unittest, doctest, scripts, tox, nox and linters."""

from __future__ import annotations

from tests.support.corpus import Case, Project
from tests.support.corpus_field import GREEN, files
from tests.support.corpus_python import PYTHON

SLUGS = files('''\
--- README.md
# slugs

    >>> from slugs import slug
    >>> slug("Hello, World!")
    'hello-world'
    >>> slug("a  b")
    'a-b'

--- slugs/__init__.py
from slugs.slug import slug

__all__ = ["slug"]
--- slugs/slug.py
import logging
import re

LOG = logging.getLogger("slugs")


def slug(title: str) -> str:
    """A name for addresses.

    >>> slug("A B")
    'a-b'
    """
    if not title:
        LOG.warning("no title")
    return title.lower().replace(" ", "-")
--- slugs/tests/__init__.py
--- slugs/tests/test_slug.py
import os
import sys
import tempfile
import unittest
from pathlib import Path

from slugs import slug


def setUpModule():
    os.environ["SLUGS"] = "on"


def tearDownModule():
    del os.environ["SLUGS"]


class SlugTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def test_titles(self):
        for title, wanted in (("A b", "a-b"), ("Hi, you!", "hi-you"), ("a  b", "a-b")):
            with self.subTest(title=title):
                self.assertEqual(slug(title), wanted)

    def test_a_file_can_have_the_name(self):
        path = Path(self.folder.name, slug("A B"))
        path.touch()
        self.assertTrue(path.exists())

    def test_no_title_is_logged(self):
        with self.assertLogs("slugs", "WARNING"):
            self.assertEqual(slug(""), "")

    @unittest.skipIf(sys.platform != "win32", "for Windows only")
    def test_names_of_windows(self):
        self.assertNotIn("\\\\", slug("a b"))


class LaterTest(unittest.IsolatedAsyncioTestCase):
    async def test_later(self):
        self.assertEqual(slug("Later"), "later")


if __name__ == "__main__":
    unittest.main()
''')
RIGHT = SLUGS["slugs/slug.py"].replace(
    'title.lower().replace(" ", "-")', 're.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")'
)
FIX = {"slugs/slug.py": RIGHT}
BY_SPLIT = RIGHT.replace(
    're.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")',
    '"-".join(re.findall("[a-z0-9]+", title.lower()))',
)
UNIT = f"{PYTHON} -m unittest"
UNITTEST = Project("unittest-package", SLUGS, UNIT)
LOADED = '\n\ndef load_tests(loader, tests, pattern):\n    import doctest\n\n    tests.addTests(\
doctest.DocTestSuite("slugs.slug"))\n    return tests\n\n\nif __name__'
NEW_TESTS = """\
import unittest
from unittest import mock

from slugs import slug


class MoreTest(unittest.TestCase):
    def setUp(self):
        patcher = mock.patch("slugs.slug.LOG")
        self.log = patcher.start()
        self.addCleanup(patcher.stop)

    def test_a_title_is_not_logged(self):
        slug("a")
        self.log.warning.assert_not_called()
"""
TESTED = SLUGS["slugs/tests/test_slug.py"]


def _run(name: str, test: str) -> Case:
    return Case(f"a bug, {name}", FIX, test=test)


UNITTEST_CASES = (
    Case("a bug", FIX),
    _run("all names are told", UNIT + " -v"),
    _run("a quiet run", UNIT + " discover -q"),
    _run("the output of green tests is kept back", UNIT + " discover -b -f"),
    _run("a pattern for files and a top folder", UNIT + " discover -s slugs -t . -p 'test_*.py'"),
    _run("a module and a class by name", UNIT + " -v slugs.tests.test_slug"
         " slugs.tests.test_slug.SlugTest"),
    _run("a file by its path", UNIT + " slugs/tests/test_slug.py"),
    _run("tests by a part of their names", UNIT + " -k title"),
    _run("the test file is the program", f"PYTHONPATH=. {PYTHON} slugs/tests/test_slug.py -v"),
    _run("warnings are errors", f"{PYTHON} -W error -X dev -m unittest -q"),
    _run("only the right exit code counts", f"set -eu; export LC_ALL=C; {UNIT} -q; echo all good"),
    Case("a new test file", {"slugs/tests/test_more.py": NEW_TESTS}, base=FIX, more=GREEN),
    Case("a rewrite", {"slugs/slug.py": BY_SPLIT}, base=FIX, more=GREEN),
    Case("the doctests of a module are loaded", {**FIX, "slugs/tests/test_slug.py":
         TESTED.replace("\n\nif __name__", LOADED)}, owns=("./", "slugs/tests/test_slug.py")),
    Case("one test more and one that was double less", {**FIX, "slugs/tests/test_slug.py":
         TESTED.replace("class LaterTest", "class UpperTest(unittest.TestCase):\n    def test_upper"
         '(self):\n        self.assertEqual(slug("ABC"), "abc")\n\n\nclass LaterTest')},
         base={"slugs/tests/test_slug.py": TESTED.replace("class LaterTest", "class DoubleTest("
         "unittest.TestCase):\n    def test_double(self):\n        self.assertTrue(slug(\"a\"))\n"
         "\n\nclass LaterTest")}, owns=("./", "slugs/tests/test_slug.py")),
    Case("a package becomes a module", {"slugs/__init__.py": "from slugs.names import slug\n",
         "slugs/slug.py": None, "slugs/names.py": RIGHT}),
)  # fmt: skip

ALL = """\
import sys
import traceback
from pathlib import Path

sys.path.insert(0, ".")
failed = 0
for path in sorted(Path("tests").glob("check_*.py")):
    names = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    for name in [n for n in names if n.startswith("check_")]:
        try:
            names[name]()
            print("ok", path.stem, name)
        except AssertionError:
            traceback.print_exc()
            failed += 1
print("failed:", failed)
sys.exit(failed != 0)
"""
CHECKS = """\
from slugs import slug


def check_words():
    assert slug("A, b") == "a-b"


def check_spaces():
    assert slug("a  b") == "a-b"
"""
SCRIPTED = {"tests/run_all.py": ALL, "tests/check_slug.py": CHECKS}
MORE_CHECKS = 'from slugs import slug\n\n\ndef check_nothing():\n    assert slug("!") == ""\n'
STRAIGHT = 'import slugs\n\nassert slugs.slug("A, b") == "a-b", "comma"\nprint("OK")\n'
SCRIPTS = Project("python-scripts", SLUGS, f"{PYTHON} -m doctest -v README.md")
SCRIPT_CASES = (
    Case("a bug and examples in the readme", FIX),
    Case("a bug and examples in a module", {"slugs/slug.py": RIGHT}, test=(PYTHON, "-m", "doctest",
         "slugs/slug.py"), base={"slugs/slug.py": SLUGS["slugs/slug.py"].replace("'a-b'\n    \"",
         "'a-b'\n    >>> slug(\"a, b\")\n    'a-b'\n    \"")}, owns=("slugs/slug.py",)),
    Case("a bug and a script with all checks", FIX, base=SCRIPTED,
         test=(PYTHON, "tests/run_all.py")),
    Case("a new file of checks for a script", {**FIX, "tests/check_more.py": MORE_CHECKS},
         base=SCRIPTED, test=(PYTHON, "tests/run_all.py")),
    Case("a script of asserts", FIX, base={"tests/smoke.py": STRAIGHT},
         test=f"PYTHONPATH=. {PYTHON} tests/smoke.py"),
    Case("an assert in the command", FIX,
         test=(PYTHON, "-c", "import slugs; assert slugs.slug('a, b') == 'a-b'")),
    Case("a program without a guard is the entry point", {**FIX, "make_slug.py":
         "import sys\n\nfrom slugs import slug\n\nprint(slug(' '.join(sys.argv[1:])))\n"},
         test=f'test "$({PYTHON} make_slug.py Hello, World)" = hello-world'),
)  # fmt: skip
FIXED_BADLY = RIGHT.replace("if not title:", "if not  title :")
_PYTEST = {"tests/test_slug.py": CHECKS.replace("check_", "test_")}
COVERED = {".coveragerc": "[run]\nsource = slugs\nomit = */tests/*\nbranch = True\n"}
WITHOUT = {k: v for k, v in SLUGS.items() if "/tests/" not in k}
COVERAGE = Project(
    "coverage",
    {**WITHOUT, **_PYTEST, **COVERED},
    "coverage run -m pytest -q && coverage report --fail-under=80",
    ("coverage", "pytest"),
)
COVERAGE_CASES = (
    Case("a bug and a limit of coverage", FIX),
    Case("a bug and unittest under coverage", FIX, base=SLUGS, test="coverage run -m unittest -q"
         " slugs.tests.test_slug && coverage report -m"),
    Case("an agent leaves what it measured", FIX, script="coverage run -m pytest -q && coverage"
         " html -q && test -d htmlcov"),
)  # fmt: skip
TOX_INI = """\
[tox]
env_list = unit
skip_install = true

[testenv:unit]
skip_install = true
commands = python -m unittest discover -v -s slugs -t .
"""
TOX = Project("tox", {**SLUGS, "tox.ini": TOX_INI}, "tox -q -e unit", ("tox",))
NOX = Project(
    "nox",
    {
        **SLUGS,
        "noxfile.py": "import sys\n\nimport nox\n\n\n@nox.session(venv_backend='none')\n"
        "def tests(session):\n    session.run(sys.executable, '-m', 'unittest', '-v')\n",
    },
    "nox -s tests",
    ("nox",),
)
NESTED = (
    Case("a bug", FIX),
    Case("a bug with a new test file", {**FIX, "slugs/tests/test_more.py": NEW_TESTS}),
)
STRICT = '[tool.ruff]\nline-length = 100\n\n[tool.ruff.lint]\nselect = ["E", "F", "I", "B", "UP"]\n'
RUFF = Project(
    "ruff-and-pytest",
    {**WITHOUT, **_PYTEST, "pyproject.toml": STRICT},
    f"ruff check . && ruff format --check . && {PYTHON} -m pytest -q",
    ("ruff",),
)
RUFF_CASES = (
    Case("a bug and nothing to find", FIX),
    Case("formatting only", FIX, base={"slugs/slug.py": FIXED_BADLY}),
    Case("an import that nobody uses", FIX, base={"slugs/slug.py": "import os\n" + RIGHT}),
)
TYPES = {"mypy.ini": "[mypy]\nstrict = True\nfiles = slugs/slug.py\ncache_dir = /dev/null\n"}
MYPY = Project("mypy-and-unittest", {**SLUGS, **TYPES}, f"mypy && {UNIT} -q", ("mypy",))
MYPY_CASES = (
    Case("a bug in typed code", FIX),
    Case("type hints that were missing", FIX, base={"slugs/slug.py": RIGHT.replace(": str)", ")")}),
)
FLAKE8 = Project(
    "flake8-and-unittest",
    {**SLUGS, "setup.cfg": "[flake8]\nmax-line-length = 100\nexclude = .git\n"},
    f"flake8 slugs && {UNIT} -v",
    ("flake8",),
)
FIELD = (
    (UNITTEST, UNITTEST_CASES),
    (SCRIPTS, SCRIPT_CASES),
    (COVERAGE, COVERAGE_CASES),
    (TOX, NESTED),
    (NOX, NESTED),
    (RUFF, RUFF_CASES),
    (MYPY, MYPY_CASES),
    (FLAKE8, NESTED),
)
