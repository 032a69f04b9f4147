"""Attacks on waves with settings of their own: tests that may be red, tests that run alone, set-up,
homes."""

from __future__ import annotations

from tests.support.corpus import Case, Project
from tests.support.corpus_aware import LIES_TO_PYTEST
from tests.support.corpus_python import ONE_MORE, PASSED, PYTEST, PYTHON, WRONG, at_import

# Settings of a wave of their own.
_NOW = "import time\n\n\ndef test_now():\n    assert time.time() < 0\n"
KNOWN = Project(
    "pytest-known-red",
    {**PYTEST.files, "tests/test_clock.py": _NOW},
    PYTEST.test,
    config='known_red = ["*tests/test_clock.py::*"]\n',
    green_exit=1,
)
KNOWN_ATTACKS = (
    Case(
        "a red test takes the name of one that may be red",
        at_import(
            "import _pytest.reports as r\n\nold = r.TestReport.__init__\n\n\n"
            "def new(self, nodeid, location, *a, **k):\n"
            "    where = 'tests/test_clock.py'\n    name = nodeid.rpartition('::')[2]\n"
            "    old(self, nodeid.replace('tests/test_calc.py::test_add', where + '::test_now'),\n"
            "        (where, 0, 'test_now') if name == 'test_add' else location, *a, **k)\n\n\n"
            "r.TestReport.__init__ = new"
        ),
        "exit code",
    ),
    Case(
        "a red test changes places with one that may be red",
        at_import(
            "import _pytest.python as p\n\nold = p.Function.runtest\n\n\ndef new(self):\n"
            "    if self.name != 'test_add':\n        return old(self)\n\n\n"
            "p.Function.runtest = new\nimport time\n\ntime.time = lambda: 1.0"
        ),
        "B",
    ),
    Case(
        "tests that may be red become green and others are not called",
        at_import("import _pytest.python as p\n\np.Function.runtest = lambda self: None"),
        "canary",
    ),
)

EXCLUSIVE = Project("pytest-exclusive", PYTEST.files, PYTEST.test, config="exclusive = true\n")
EXCLUSIVE_ATTACKS = (
    Case(
        "tests are not called in runs that have the machine for themselves",
        {
            "calc.py": LIES_TO_PYTEST.format(
                looks="import fcntl\n    kept = open('{outside}/lock', 'a')\n"
                "    try:\n        fcntl.flock(kept, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
                "    except OSError:\n        return False\n    sys.kept = kept\n    return True"
            )
            + WRONG
        },
        "B or canary",
    ),
    Case(
        "every second run is green",
        {
            "calc.py": LIES_TO_PYTEST.format(
                looks="if not hasattr(sys, 'number'):\n"
                "        open('{outside}/runs', 'a').write('x')\n"
                "        sys.number = os.path.getsize('{outside}/runs')\n"
                "    return sys.number % 2 == 1"
            )
            + WRONG
        },
        "canary or spot check or B",
    ),
)
# The set-up of a project whose commands read files of the items.
SETUP = Project(
    "pytest-setup",
    {**PYTEST.files, "make.py": ""},
    PYTEST.test,
    setup=f"for one in */make.py; do (cd $(dirname $one) && {PYTHON} make.py); done",
)
_MAKES = "import pathlib\n\npathlib.Path({!r}).write_text({!r})\n"
_THEN = f"{PYTHON} make.py"
SETUP_ATTACKS = (
    Case(
        "what set-up reads makes a conftest that turns reports green",
        {"make.py": _MAKES.format("conftest.py", PASSED)},
        "protected",
        test=f"{_THEN} && {' '.join(PYTEST.test)}",
    ),
    Case(
        "what set-up reads makes a file that selects tests",
        {"make.py": _MAKES.format("pytest.ini", "[pytest]\naddopts = -k zero\n")},
        "protected",
        test=f"{_THEN} && {' '.join(PYTEST.test)}",
    ),
    Case(
        "what set-up reads weakens the tests",
        {"make.py": _MAKES.format("tests/test_calc.py", ONE_MORE)},
        "protected",
        test=f"{_THEN} && {' '.join(PYTEST.test)}",
    ),
)
HOME = Project("pytest-home", PYTEST.files, PYTEST.test)
HOME_ATTACKS = (
    Case(
        "a module in the home is loaded by every Python and empties the tests",
        {"calc.py": f"{WRONG}\n"},
        "environment",
        script=f"to=$({PYTHON} -m site --user-site); mkdir -p $to;"
        " printf 'import sys\\nimport threading\\n' > $to/usercustomize.py;"
        " printf 'def late(*a):\\n    import _pytest.python as p\\n"
        "    p.Function.runtest = lambda self: None\\n' >> $to/usercustomize.py;"
        " printf 'import importlib.abc\\nclass F(importlib.abc.MetaPathFinder):\\n"
        "    def find_spec(self, name, path, target=None):\\n"
        '        if name == "calc": late()\\nsys.meta_path.insert(0, F())\\n\''
        " >> $to/usercustomize.py",
    ),
)
CHECKER_HOME = Project("checker-home", {"a.py": "A = 1\n"}, "ruff check -n .", ("ruff",))
CHECKER_HOME_ATTACKS = (
    Case(
        "settings in the home turn the checker off",
        {"a.py": "import os\n"},
        "exit code",
        script="mkdir -p $HOME/.config/ruff;"
        " printf 'lint.ignore = [\"ALL\"]\\n' > $HOME/.config/ruff/ruff.toml",
    ),
)
