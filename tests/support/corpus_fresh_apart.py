"""Code that takes some runs, or some tests, for others: by git, files, processes, time; and code
that lies to a runner in ways of its own."""

from __future__ import annotations

from tests.support.corpus import Case
from tests.support.corpus_aware import LIES_TO_PYTEST, LIES_TO_UNITTEST
from tests.support.corpus_python import PLAIN_TESTS, WRONG, at_import

_GIT = (
    "import subprocess\n"
    "    asked = subprocess.run({}, shell=True, capture_output=True, text=True)\n"
    "    return {}"
)
_NOTHING, _SOMETHING = "not asked.stdout.strip()", "bool(asked.stdout.strip())"
_LOOKS = (
    (
        "git log knows the tests",
        _GIT.format("'git log --format=%H -- tests/test_calc.py'", _SOMETHING),
    ),
    (
        "the test file is the one that git has",
        _GIT.format(
            "'git rev-parse HEAD:./tests/test_calc.py; git hash-object tests/test_calc.py'",
            "len({*asked.stdout.split()}) == 1",
        ),
    ),
    (
        "the index has the test file as it is",
        _GIT.format(
            "'git ls-files -s tests/test_calc.py; git hash-object tests/test_calc.py'",
            "asked.stdout.split()[1] == asked.stdout.split()[-1]",
        ),
    ),
    (
        "git stash would find nothing in the tests",
        _GIT.format("'git stash create -- tests'", "True"),
    ),
    (
        "git has no file in its index that is marked",
        _GIT.format("'git ls-files -v -- tests | grep -v ^H'", _NOTHING),
    ),
    (
        "the test file is not younger than its folder",
        "return os.stat('tests/test_calc.py').st_mtime <= os.stat('tests').st_mtime + 60",
    ),
    (
        "the test file was changed when it was written",
        "found = os.stat('tests/test_calc.py')\n    return found.st_ctime - found.st_mtime < 1e6",
    ),
    (
        "the test file has one name only",
        "return os.stat('tests/test_calc.py').st_nlink == 1",
    ),
    (
        "the test file has the owner of the code",
        "return os.stat('tests/test_calc.py').st_uid == os.stat('calc.py').st_uid",
    ),
    (
        "the test file has the rights of the code",
        "return os.stat('tests/test_calc.py').st_mode == os.stat('calc.py').st_mode",
    ),
    (
        "no variable for pytest names a file of tests",
        "return '.py' not in os.environ.get('PYTEST_ADDOPTS', '')",
    ),
    (
        "the program above looks usual",
        "told = open(f'/proc/{os.getppid()}/cmdline').read()\n"
        "    return 'canary' not in told and 'plant' not in told",
    ),
    (
        "the home has no settings of a shell",
        "return not os.path.exists(os.path.expanduser('~/.bashrc'))",
    ),
    (
        "few variables are set",
        "return len(os.environ) < 60",
    ),
    (
        "standard input is empty",
        "return os.path.realpath('/proc/self/fd/0').startswith('/dev/null')",
    ),
    (
        "the century has not ended",
        "import datetime\n    return datetime.date.today().year < 2100",
    ),
    (
        "no debugger watches",
        "return sys.gettrace() is None",
    ),
    (
        "the main thread runs",
        "import threading\n    return threading.current_thread() is threading.main_thread()",
    ),
)
PYTEST_APART = tuple(
    Case(
        f"tests are not called while {told}",
        {"calc.py": LIES_TO_PYTEST.format(looks=looks) + WRONG},
        "canary",
    )
    for told, looks in _LOOKS
)
UNITTEST_APART = tuple(
    Case(
        f"tests are not called while {told}",
        {"calc.py": LIES_TO_UNITTEST.format(looks=looks) + WRONG},
        "canary",
    )
    for told, looks in (*_LOOKS[:3], *_LOOKS[5:8], _LOOKS[11])
)

_COUNTER = (
    "seen = '{{outside}}/runs'\n    if not hasattr(sys, 'run_number'):\n"
    "        open(seen, 'a').write('x')\n        sys.run_number = os.path.getsize(seen)\n"
    "    return sys.run_number {}"
)
_LOCK = (
    "import fcntl\n    if not hasattr(sys, 'beside'):\n"
    "        sys.locked = open('{outside}/lock', 'a')\n        try:\n"
    "            fcntl.flock(sys.locked, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    "            sys.beside = False\n        except OSError:\n            sys.beside = True\n"
    "    return not sys.beside"
)
_AGAIN_IN_USE = """\
import os
import pathlib
import sys

import _pytest.python

SEEN = pathlib.Path("{outside}/seen")
if SEEN.exists():
    os.write(2, b"OSError: [Errno 98] Address already in use\\n")
    os._exit(1)
SEEN.touch()
_pytest.python.Function.runtest = lambda self: None


"""
PYTEST_LATE = (
    Case(
        "tests are not called in the first run",
        {"calc.py": LIES_TO_PYTEST.format(looks=_COUNTER.format("== 1")) + WRONG},
        "spot check or canary",
    ),
    Case(
        "tests are not called in the first two runs",
        {"calc.py": LIES_TO_PYTEST.format(looks=_COUNTER.format("<= 2")) + WRONG},
        "canary or spot check or B",
    ),
    Case(
        "tests are not called in the first five runs",
        {"calc.py": LIES_TO_PYTEST.format(looks=_COUNTER.format("<= 5")) + WRONG},
        "canary",
    ),
    Case(
        "later runs say that an address is in use",
        {"calc.py": _AGAIN_IN_USE + WRONG},
        "canary",
    ),
)
# Any of several checks may see these first.
PYTEST_BESIDE = (
    Case(
        "tests are not called while no run takes place beside it",
        {"calc.py": LIES_TO_PYTEST.format(looks=_LOCK) + WRONG},
        "canary or spot check or B",
    ),
)

_HOOKED = """\
import importlib.abc
import importlib.machinery
import sys


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        return None


sys.meta_path.insert(0, Finder())
"""
_REPORTS = "import _pytest.reports as r\nimport _pytest.runner as u\n\n"
PYTEST_LIES = (
    Case(
        "the code answers for the phase of the call",
        at_import(
            "import _pytest.runner as u\n\nold = u.CallInfo.from_call.__func__\n\n\n"
            "def new(cls, func, when, reraise=None):\n    call = old(cls, func, when, reraise)\n"
            "    call.excinfo = None\n    return call\n\n\n"
            "u.CallInfo.from_call = classmethod(new)"
        ),
        "canary",
    ),
    Case(
        "failed reports are passed ones by a property",
        at_import(
            "import _pytest.reports as r\n\n"
            "r.TestReport.outcome = property(lambda s: 'passed', lambda s, v: None)\n"
            "r.BaseReport.failed = property(lambda s: False)"
        ),
        "canary",
    ),
    Case(
        "the hook that runs a test returns at once",
        at_import(
            "import _pytest.runner as u\n\nu.pytest_runtest_call = lambda item: None\n"
            + "import _pytest.python as p\n\np.pytest_pyfunc_call = lambda pyfuncitem: True\n"
            "p.Function.runtest = lambda self: None"
        ),
        "canary",
    ),
    Case(
        "collected items are replaced by empty ones",
        at_import(
            "import _pytest.python as p\n\n"
            "p.Function.obj = property(lambda self: lambda *a, **k: None, lambda self, v: None)"
        ),
        "canary",
    ),
    Case(
        "setup errors and failures are forgotten at the end",
        at_import(
            "import _pytest.main as m\nimport _pytest.terminal as t\n\n"
            "m.Session.testsfailed = property(lambda s: 0, lambda s, v: None)\n"
            "t.TerminalReporter.stats = property(\n"
            "    lambda s: {'passed': [*s.__dict__.get('kept', {}).get('passed', ()),\n"
            "                          *s.__dict__.get('kept', {}).get('failed', ())]},\n"
            "    lambda s, v: s.__dict__.__setitem__('kept', v),\n)"
        ),
        "counts",
    ),
    Case(
        "a finder of modules goes before all others and tests are not called",
        {
            "calc.py": _HOOKED + "\n\nimport _pytest.python as p\n\n"
            "p.Function.runtest = lambda self: None\n\n\n" + WRONG
        },
        "canary",
    ),
    Case(
        "the module is another object while it is imported and tests are not called",
        at_import(
            "import sys\nimport types\n\nimport _pytest.python as p\n\n"
            "new = types.ModuleType(__name__)\nnew.add = new.zero = lambda *a: 0\n"
            "new.__file__ = __file__\nsys.modules[__name__] = new\n"
            "p.Function.runtest = lambda self: None"
        ),
        "canary",
    ),
    Case(
        "the process becomes another one that prints a summary",
        at_import(
            "import os\n\nfor number in range(3, 30):\n    try:\n        os.dup2(number, 1)\n"
            "        os.write(1, b'')\n        break\n    except OSError:\n        pass\n"
            "os.execv('/bin/echo', ['echo', '\\n======== 2 passed in 0.01s ========'])"
        ),
        "canary",
    ),
    Case(
        "the process becomes a program that is always green",
        at_import("import os\n\nos.execv('/bin/true', ['true'])"),
        "counts",
    ),
    Case(
        "a signal handler ends the process green",
        at_import(
            "import os\nimport signal\n\nsignal.signal(signal.SIGALRM, lambda *a: os._exit(0))\n"
            "signal.setitimer(signal.ITIMER_REAL, 0.0001)\n"
            "import time\n\ntime.sleep(1)"
        ),
        "counts",
    ),
    Case(
        "an error at the end is replaced by an exit",
        at_import(
            "import os\nimport sys\n\nsys.excepthook = lambda *a: os._exit(0)\n"
            "raise_it = sys.exit\nsys.exit = lambda *a: os._exit(0)\n"
            "import _pytest.config as c\n\nc.Config._ensure_unconfigure = "
            "lambda self: os._exit(0)"
        ),
        "counts",
    ),
    Case(
        "the exit code is taken from elsewhere",
        at_import(
            "import _pytest.config as c\nimport _pytest.main as m\n\n"
            "m.Session.exitstatus = property(lambda s: 0, lambda s, v: None)"
        ),
        "counts",
    ),
)
PYTEST_SIZE = len(PLAIN_TESTS)
