"""In which test file of Python a failing test is planted, and where in it."""

from __future__ import annotations

import ast

import pytest

from driver.runners.canary import innocent_name, plan_canary
from driver.runners.runner import Canary, NotApplicable

FUNCTION = "def test_a():\n    assert True\n"
CASE = "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n"
MAIN = '\n\nif __name__ == "__main__":\n    unittest.main()\n'


def host(texts: dict[str, str], command: str = "pytest") -> Canary:
    found = plan_canary(command, texts, (), "k_q", texts=texts)
    assert isinstance(found, Canary), found
    return found


@pytest.mark.parametrize(
    "text",
    [
        FUNCTION,
        CASE,
        CASE + MAIN,
        "from __future__ import annotations\n" + FUNCTION,
        "async def test_a():\n    pass\n",
        "import pytest\n\n\n@pytest.mark.skipif(True)\n" + FUNCTION,
        "import pytest\n\nneeds = pytest.mark.skipif(True)\n" + FUNCTION,
        f"TEXT = '\u2028\f'\n{CASE}{MAIN}",
        "import pytest\n\npytestmark = [pytest.mark.slow]\n\n\n" + FUNCTION,
        "import pytest\n\n\n@pytest.fixture\ndef one():\n    return 1\n\n\n" + FUNCTION,
    ],
)
def test_a_file_with_tests_takes_one_more_and_stays_valid(text: str) -> None:
    found = host({"test_a.py": text})
    assert (found.path, found.amends) == ("test_a.py", True)
    body = ast.parse(found.text).body
    assert "test_k_q" in [getattr(node, "name", "") for part in body for node in ast.walk(part)]
    assert isinstance(body[-1], ast.If) == text.endswith(MAIN)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1\n",
        "def test_a(:\n",
        "\ufffd = 1\n" + FUNCTION,
        "\ufeff" + FUNCTION,
        "import pytest\npytestmark = pytest.mark.skipif(True, reason='x')\n" + FUNCTION,
        "import pytest\nnumpy = pytest.importorskip('numpy')\n" + FUNCTION,
        "import pytest\npytest.skip('x', allow_module_level=True)\n" + FUNCTION,
        "import unittest\nif True:\n    raise unittest.SkipTest('x')\n" + CASE,
        "from tests.common import *\n" + FUNCTION,
        "def setUpModule():\n    pass\n\n\n" + CASE,
        "def pytest_generate_tests(metafunc):\n    metafunc.parametrize('x', [1])\n\n\n" + FUNCTION,
        "def load_tests(loader, tests, pattern):\n    return tests\n\n\n" + CASE,
        "import pytest\n\n\n@pytest.fixture(autouse=True)\ndef one():\n    pass\n\n\n" + FUNCTION,
    ],
)
def test_a_file_that_decides_which_of_its_tests_run_is_passed_over(text: str) -> None:
    assert not host({"test_a.py": text}).amends
    assert host({"test_a.py": text, "test_b.py": FUNCTION}).path == "test_b.py"


def test_where_only_classes_are_looked_at_functions_are_no_tests() -> None:
    assert not host({"test_a.py": FUNCTION}, "python -m unittest").amends


def test_what_makes_a_file_a_program_stays_last() -> None:
    text = host({"test_a.py": CASE + MAIN}).text
    assert text.endswith(MAIN.lstrip("\n"))
    assert text.index("test_k_q") < text.index("__main__")


def test_names_are_like_those_of_any_test() -> None:
    names = {innocent_name(number) for number in range(3000)}
    assert len(names) > 1500
    assert all(name.replace("_", "").isalpha() and name.islower() for name in names)


TEXTS = {
    "tests/__init__.py": "",
    "tests/test_a.py": CASE,
    "tests/test_b.py": CASE,
    "tests/deep/test_c.py": CASE,
    "calc.py": "",
}


@pytest.mark.parametrize(
    ("command", "path", "more"),
    [
        ("pytest", "tests/test_a.py", ""),
        ("pytest tests", "tests/test_a.py", ""),
        ("pytest tests/deep", "tests/deep/test_c.py", ""),
        ("pytest tests/test_b.py", "tests/test_b.py", ""),
        ("pytest tests/test_a.py::A tests/test_b.py", "tests/test_b.py", ""),
        (
            "pytest tests/test_b.py::A::test_a",
            "tests/test_b.py",
            " tests/test_b.py::A::test_k_q",
        ),
        ("pytest tests/test_b.py | tee log", "tests/test_b.py", ""),
        ("python -m unittest", "tests/test_a.py", ""),
        ("python -m unittest discover -s tests", "tests/test_a.py", ""),
        ("python -m unittest discover -s tests/deep", "tests/deep/test_c.py", ""),
        ("python -m unittest tests.test_b", "tests/test_b.py", ""),
        ("python -m unittest tests/test_b.py", "tests/test_b.py", ""),
        ("python -m unittest tests.test_b.A.test_a", "tests/test_b.py", " tests.test_b.A.test_k_q"),
    ],
)
def test_it_stands_in_a_file_that_the_command_runs(command: str, path: str, more: str) -> None:
    found = plan_canary(command, TEXTS, ("calc.py",), "k_q", texts=TEXTS)
    assert isinstance(found, Canary), found
    assert (found.path, found.command, found.amends) == (path, command + more, True)
    assert found.alone == found.command or "test_" in str(found.alone)
    assert found.text.startswith(f"import sys\n{TEXTS[path]}")


def test_a_file_that_the_work_wrote_is_the_last_choice() -> None:
    found = plan_canary("pytest", TEXTS, ("calc.py", "tests/test_a.py"), "k_q", texts=TEXTS)
    assert isinstance(found, Canary)
    assert found.path == "tests/test_b.py"


def test_single_tests_behind_a_pipe_have_none() -> None:
    command = "pytest tests/test_a.py::A | tee log"
    assert isinstance(plan_canary(command, TEXTS, (), "k_q", texts=TEXTS), NotApplicable)
