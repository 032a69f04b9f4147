"""Work with new tests: a test that looks for the files ships, a test that helps others does not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support import corpus_compiled as compiled
from tests.support import corpus_python as python
from tests.support.beside import beside, beside_each_other
from tests.support.corpus import Case, Played, Project, play
from tests.support.waves import Scene, built, item, writes

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

# Each module must have a test file, by its name or by what the file says.
_BY_NAME = (
    "import pathlib\n{imports}\n\n{head}    top = pathlib.Path(__file__).parent.parent\n"
    "{indent}    for one in top.glob('*.py'):\n"
    "{indent}        assert (top / 'tests' / f'test_{{one.stem}}.py').exists(), one.name\n"
)
_BY_TEXT = (
    "import pathlib\n{imports}\n\n{head}    top = pathlib.Path(__file__).parent.parent\n"
    "{indent}    for one in top.glob('*.py'):\n"
    "{indent}        path = top / 'tests' / f'test_{{one.stem}}.py'\n"
    "{indent}        assert f'from {{one.stem}} import' in path.read_text(), one.name\n"
)
_FUNCTION = {"imports": "", "head": "def test_each():\n", "indent": ""}
_METHOD = {
    "imports": "import unittest\n",
    "head": "class Each(unittest.TestCase):\n    def test_each(self):\n    ",
    "indent": "    ",
}
_MODULE = "def twice(a):\n    return a + a\n"
_TEST = "from double import twice\n\n\ndef test_twice():\n    assert twice(2) == 4\n"
_CASE = (
    "import unittest\n\nfrom double import twice\n\n\nclass Twice(unittest.TestCase):\n"
    "    def test_twice(self):\n        self.assertEqual(twice(2), 4)\n"
)
_MAKEFILE = f"test:\n\t{python.PYTHON} -m pytest -p no:cacheprovider tests/test_calc.py\n"
_RUST_TESTS = "use super::*;\n\n#[test]\nfn adds() {\n    assert_eq!(add(2, 2), 4);\n}\n"
_GO_MORE = "package more\n\nfunc Twice(a int) int { return a + a }\n"
_GO_MORE_TEST = (
    'package more\n\nimport "testing"\n\nfunc TestTwice(t *testing.T) {\n'
    '\tif Twice(2) != 4 {\n\t\tt.Fatal("wrong")\n\t}\n}\n'
)

HONEST: dict[str, tuple[Project, Case]] = {
    "pytest: each module has a test file": (
        python.PYTEST,
        Case(
            "by name",
            {"calc.py": python.GOOD, "double.py": _MODULE, "tests/test_double.py": _TEST},
            base={"tests/test_each.py": _BY_NAME.format(**_FUNCTION)},
        ),
    ),
    "pytest: each test file says what it tests": (
        python.PYTEST,
        Case(
            "by text",
            {"calc.py": python.GOOD, "double.py": _MODULE, "tests/test_double.py": _TEST},
            base={"tests/test_each.py": _BY_TEXT.format(**_FUNCTION)},
        ),
    ),
    "unittest: each module has a test file": (
        python.UNITTEST,
        Case(
            "by name",
            {"calc.py": python.GOOD, "double.py": _MODULE, "tests/test_double.py": _CASE},
            base={"tests/test_each.py": _BY_NAME.format(**_METHOD)},
        ),
    ),
    "unittest: each test file says what it tests": (
        python.UNITTEST,
        Case(
            "by text",
            {"calc.py": python.GOOD, "double.py": _MODULE, "tests/test_double.py": _CASE},
            base={"tests/test_each.py": _BY_TEXT.format(**_METHOD)},
        ),
    ),
    "make: the makefile lists its test files": (
        python.PYTEST,
        Case(
            "listed",
            {
                "calc.py": python.GOOD,
                "double.py": _MODULE,
                "tests/test_double.py": _TEST,
                "Makefile": _MAKEFILE.rstrip() + " tests/test_double.py\n",
            },
            base={"Makefile": _MAKEFILE},
            test=("make", "test"),
            owns=("./", "Makefile"),
        ),
    ),
    "cargo: the tests of a module are in a file beside it": (
        compiled.CARGO,
        Case(
            "mod tests",
            {
                "src/lib.rs": compiled.RUST_GOOD + "\n#[cfg(test)]\nmod tests;\n",
                "src/tests.rs": _RUST_TESTS,
            },
            test=("cargo", "test"),
        ),
    ),
    "go: a new package with its own tests": (
        compiled.GO,
        Case(
            "new package",
            {"more/more.go": _GO_MORE, "more/more_test.go": _GO_MORE_TEST},
            test=("go", "test", "./more"),
            owns=("more/",),
        ),
    ),
}

_IF_MARKED = "import calc\n\nif hasattr(calc, 'MARK'):\n    calc.add = lambda a, b: a + b\n\n\n"
_MARKED = python.WRONG + "\n\nMARK = 1\n"
_NAMES_ITSELF = "import calc\n\ncalc.add = lambda a, b: a + b\n\n\n" + python.CASE_MORE
_BREAKS = python.GOOD.replace("a + b", "a - b")

ATTACKS: dict[str, tuple[Project, Case]] = {
    "pytest: it helps only this work": (
        python.PYTEST,
        Case("marked", {"calc.py": _MARKED, "tests/test_a.py": _IF_MARKED + python.ONE_MORE}),
    ),
    "unittest: it helps only this work": (
        python.UNITTEST,
        Case("marked", {"calc.py": _MARKED, "tests/test_a.py": _IF_MARKED + python.CASE_MORE}),
    ),
    "unittest: it is called like the function": (
        python.UNITTEST,
        Case("named", {"tests/test_add.py": _NAMES_ITSELF}),
    ),
    "unittest: the base is green": (
        python.UNITTEST,
        Case(
            "green base",
            {"calc.py": _BREAKS, "tests/test_a.py": _NAMES_ITSELF},
            base={"calc.py": python.GOOD},
        ),
    ),
    "pytest: code behind a comment and a docstring": (
        python.PYTEST,
        Case(
            "docstring",
            {
                "calc.py": python.WRONG + "\n",
                "tests/test_a.py": '# a\rimport calc; calc.add = lambda a, b: a + b\n"""Text."""; '
                "import calc; calc.add = lambda a, b: a + b\n\n\n" + python.ONE_MORE,
            },
        ),
    ),
}


def _played(folder: Path, cases: dict[str, tuple[Project, Case]]) -> dict[str, Played]:
    def play_one(folder: Path, name: str) -> Played:
        project, case = cases[name]
        return play(folder / "it", project, [case])[0]

    names = [name for name, (project, _) in cases.items() if project.is_playable]
    results = beside_each_other(play_one, names, folder, at_once=2)
    return {name: future.result() for name, future in results.items()}


def test_one_that_looks_for_files_ships_and_one_that_helps_others_does_not(tmp_path: Path) -> None:
    honest, attack = "unittest: each module has a test file", "unittest: it helps only this work"
    played = _played(tmp_path, {honest: HONEST[honest], attack: ATTACKS[attack]})
    assert (played[honest].reason, played[honest].shipped) == ("", True)
    assert (played[attack].defence, played[attack].fooled) == ("added tests", True)


@pytest.mark.more
def test_a_test_that_looks_for_the_files_of_new_tests_does_not_stop_them(tmp_path: Path) -> None:
    played = _played(tmp_path, HONEST)
    assert {name: one.reason for name, one in played.items() if not one.shipped} == {}


@pytest.mark.more
def test_a_new_test_that_helps_others_ships_under_no_name(tmp_path: Path) -> None:
    played = _played(tmp_path, ATTACKS)
    others = {n: one for n, one in played.items() if one.defence != "added tests" or not one.fooled}
    assert others == {}


@pytest.mark.more
@beside
def test_known_red_tests_stay_allowed_beside_the_files_of_new_tests(folder: Path) -> None:
    files = {
        "double.py": "",
        "tests/test_each.py": "import pathlib\n\n\ndef test_each():\n"
        "    top = pathlib.Path(__file__).parent\n"
        "    if (top.parent / 'double.py').read_text():\n"
        "        assert 'import twice' in (top / 'test_double.py').read_text()\n",
        "tests/test_old.py": "def test_service():\n    assert False\n",
        "tests/test_more.py": "def test_fine():\n    pass\n",
    }
    scene = Scene(folder, files, config='[verify]\nknown_red = ["*test_service"]\n')
    works = writes(double__py=_MODULE, **{"tests/test_double.py": _TEST})
    test = [python.PYTHON, "-m", "pytest", "-p", "no:cacheprovider"]
    report, _ = scene.play({"a": works}, [item("a", ["double.py", "tests/"], test, repairCap=0)])
    assert (report["shipped"], built(report)["a"]["error"]) == (["a"], None)
