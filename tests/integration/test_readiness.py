"""A test command that cannot test the work is told before an agent is paid."""

from __future__ import annotations

import json
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.beside import beside
from tests.support.waves import Agent, Scene, ScriptedDriver, built, item, verdicts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="test commands for a POSIX shell")

WRONG = "def value():\n    return 1\n"
CASE = (
    "import unittest\n\nfrom {module} import value\n\n\nclass Value(unittest.TestCase):\n"
    "    def test_value(self):\n        self.assertEqual(value(), 2)\n"
)
FUNCTION = "from {module} import value\n\n\ndef test_value():\n    assert value() == 2\n"


def never(agent: Agent) -> None:
    raise AssertionError("an agent was paid")


def right(path: str) -> Any:
    return lambda agent: agent.write({path: WRONG.replace("1", "2")})


def an_environment(folder: Path, shown: Path) -> str:
    """A Python whose packages lead into `shown`, as an editable install does; with our pytest."""
    venv.create(folder, symlinks=True, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    mine = Path(pytest.__file__).parents[1]
    (packages / "mine.pth").write_text(f"{shown}\n{mine}\n", encoding="utf-8")
    return str(folder / "bin" / "python")


def played(
    scene: Scene, command: Sequence[str] | str, owns: Sequence[str], agent: Any = never
) -> dict[str, Any]:
    report = scene.run(ScriptedDriver({"a": agent}), [item("a", list(owns), command)])
    return built(report)["a"]


def scene_of(folder: Path, source: str, test: str, text: str) -> Scene:
    return Scene(folder, {source: WRONG, test: text, "README.md": "a\n"})


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("source", "test", "words"),
    [
        ("src/u.py", "tests/test_u.py", "-m unittest -q tests.test_u"),
        ("src/u.py", "tests/test_u.py", "-m unittest discover -s tests"),
        ("src/u.py", "tests/test_u.py", "-m pytest -q -p no:cacheprovider tests"),
        ("packages/u/src/u/__init__.py", "tests/test_u.py", "-m unittest -q tests.test_u"),
    ],
)
@beside
def test_tests_that_import_another_checkout_are_told_before_an_agent_is_paid(
    folder: Path, source: str, test: str, words: str
) -> None:
    scene = scene_of(folder, source, test, CASE.format(module="u"))
    root = source.partition("/u.py")[0].removesuffix("/u/__init__.py")
    python = an_environment(folder / "env", scene.repo.path / root)
    record = played(scene, [python, *words.split()], [source])
    assert record["verdict"] == "undecided"
    assert f"import {scene.repo.path / source} in place of {source}" in record["error"]
    assert f"({test} imports u)" in record["error"]
    assert f"set PYTHONPATH={root}" in record["error"]
    assert not record["attempts"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cd . && {python} -m unittest -q tests.test_u", {}),
        ("A=1 {python} -m unittest -q tests.test_u", {}),
        ("make test", {"Makefile": "test:\n\t{python} -m unittest -q tests.test_u\n"}),
    ],
)
@beside
def test_a_longer_command_is_asked_as_well(
    folder: Path, command: str, files: dict[str, str]
) -> None:
    python = str(folder / "env/bin/python")
    texts = {name: text.format(python=python) for name, text in files.items()}
    scene = Scene(folder, {"src/u.py": WRONG, "tests/test_u.py": CASE.format(module="u"), **texts})
    an_environment(folder / "env", scene.repo.path / "src")
    record = played(scene, command.format(python=python), ["src/u.py"])
    assert (record["verdict"], "import set" in record["error"]) == ("undecided", False)
    assert f"import {scene.repo.path}/src/u.py in place of src/u.py" in record["error"]


@pytest.mark.more
@pytest.mark.parametrize("prefix", ["PYTHONPATH=src ", "export PYTHONPATH=src && "])
@beside
def test_a_command_that_sets_the_path_itself_goes_on(folder: Path, prefix: str) -> None:
    scene = scene_of(folder, "src/u.py", "tests/test_u.py", CASE.format(module="u"))
    python = an_environment(folder / "env", scene.repo.path / "src")
    command = f"{prefix}{python} -m unittest -q tests.test_u"
    assert played(scene, command, ["src/u.py"], right("src/u.py"))["verdict"] == "verified"


@pytest.mark.more
@beside
def test_a_red_test_that_names_another_checkout_is_no_regression(folder: Path) -> None:
    """The question is not asked for a program that is no runner."""
    files = {
        "src/u.py": WRONG,
        "check.py": "import sys\n\nfrom u import value\n\ntry:\n    from u import more\nexcept "
        "ImportError as error:\n    sys.exit(str(error) if '--new' in open('new').read() else 0)\n",
        "new": "",
    }
    scene = Scene(folder, files)
    python = an_environment(folder / "env", scene.repo.path / "src")
    adds = lambda agent: agent.write(  # noqa: E731
        {"src/u.py": WRONG + "more = 1\n", "new": "--new"}
    )
    record = played(scene, [python, "check.py"], ["src/u.py", "new"], adds)
    assert record["verdict"] == "undecided"
    assert f"the tests import {scene.repo.path}/src/u.py in place of src/u.py" in record["error"]
    assert len(record["attempts"]) == 1


@pytest.mark.more
@pytest.mark.parametrize("file", ["tests/unit/conftest.py", "tests/unit/test_u.py"])
@beside
def test_tests_that_find_the_tree_by_themselves_go_on(folder: Path, file: str) -> None:
    test = CASE.format(module="u")
    files = {"src/u.py": WRONG, "tests/unit/conftest.py": "", "tests/unit/test_u.py": test}
    finds = (
        "import sys\nfrom pathlib import Path\n\n"
        "sys.path.insert(0, str(Path(__file__).parents[2] / 'src'))\n\n"
    )
    scene = Scene(folder, {**files, file: finds + files[file]})
    python = an_environment(folder / "env", scene.repo.path / "src")
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/unit/test_u.py"]
    assert played(scene, command, ["src/u.py"], right("src/u.py"))["verdict"] == "verified"


@pytest.mark.more
@beside
def test_every_name_counts_by_itself(folder: Path) -> None:
    text = "from src.u import value as same\n" + CASE.format(module="u")
    scene = scene_of(folder, "src/u.py", "tests/test_u.py", text)
    python = an_environment(folder / "env", scene.repo.path / "src")
    record = played(scene, [python, "-m", "unittest", "-q", "tests.test_u"], ["src/u.py"])
    assert (record["verdict"], "test_u.py imports u)" in record["error"]) == ("undecided", True)


@pytest.mark.more
@beside
def test_the_remedy_helps_and_other_items_go_on(folder: Path) -> None:
    scene = scene_of(folder, "src/u.py", "tests/test_u.py", CASE.format(module="u"))
    python = an_environment(folder / "env", scene.repo.path / "src")
    words = [python, "-m", "unittest", "-q", "tests.test_u"]
    items = [
        item("a", ["src/u.py"], ["env", "PYTHONPATH=src", *words]),
        item("b", ["README.md"], ["grep", "-q", "good", "README.md"]),
    ]
    agents = {"a": right("src/u.py"), "b": lambda agent: agent.write({"README.md": "good\n"})}
    assert verdicts(scene.run(ScriptedDriver(agents), items)) == {"a": "verified", "b": "verified"}


@pytest.mark.more
@beside
def test_a_regular_package_of_another_project_is_no_matter(folder: Path) -> None:
    text = "import iniconfig\n\n" + FUNCTION.format(module="u")
    files = {"u.py": WRONG, "tests/test_u.py": text, "examples/iniconfig.py": "A = 1\n"}
    scene = Scene(folder, files)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    assert played(scene, words, ["u.py", "examples/"], right("u.py"))["verdict"] == "verified"


@pytest.mark.more
@pytest.mark.parametrize(
    ("words", "owns"),
    [
        ("-m pytest -q -p no:cacheprovider", ["src/x/"]),
        ("-m pytest -q -p no:cacheprovider tests/test_x.py", ["src/", "docs/"]),
        ("-m unittest discover -s tests", ["src/x/__init__.py"]),
    ],
)
@beside
def test_a_test_that_cannot_be_loaded_on_the_base_is_told(
    folder: Path, words: str, owns: list[str]
) -> None:
    text = CASE.format(module="x")
    scene = scene_of(folder, "src/x/__init__.py", "tests/test_x.py", text)
    record = played(scene, [sys.executable, *words.split()], owns)
    assert record["verdict"] == "undecided"
    assert "tests/test_x.py cannot be loaded" in record["error"]
    assert "No module named 'x'" in record["error"]
    assert "PYTHONPATH=src" in record["error"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("files", "owns", "writes"),
    [
        ({}, ["x.py"], "x.py"),
        ({}, ["x/"], "x/__init__.py"),
        ({}, ["lib/", "x/", "x.py"], "x.py"),
        (
            {"pytest.ini": "[pytest]\npythonpath = lib\n", "lib/x.py": WRONG},
            ["lib/x.py"],
            "lib/x.py",
        ),
        (
            {"conftest.py": "import sys\n\nsys.path.insert(0, 'lib')\n", "lib/x.py": WRONG},
            ["lib/x.py"],
            "lib/x.py",
        ),
        ({"conftest.py": "", "x.py": WRONG}, ["x.py"], "x.py"),
        (
            {"tests/__init__.py": "import sys\n\nsys.path.insert(0, 'lib')\n", "lib/x.py": WRONG},
            ["lib/x.py"],
            "lib/x.py",
        ),
    ],
)
@beside
def test_an_item_that_brings_the_module_goes_on(
    folder: Path, files: dict[str, str], owns: list[str], writes: str
) -> None:
    scene = Scene(folder, {"tests/test_x.py": FUNCTION.format(module="x"), **files})
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    record = played(scene, words, owns, right(writes))
    assert (record["verdict"], record["error"]) == ("verified", None)


@pytest.mark.more
@beside
def test_an_optional_module_stops_nobody(folder: Path) -> None:
    text = (
        "import pytest\n\npytest.importorskip('no_such_module')\nimport no_such_module\n\n\n"
        "def test_it():\n    assert no_such_module\n"
    )
    files = {"u.py": WRONG, "tests/test_u.py": FUNCTION.format(module="u"), "tests/test_o.py": text}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    assert played(Scene(folder, files), words, ["u.py"], right("u.py"))["verdict"] == "verified"


@pytest.mark.more
@beside
def test_a_module_that_nobody_has_is_told(folder: Path) -> None:
    text = "import no_such_module\n\n" + FUNCTION.format(module="u")
    scene = scene_of(folder, "u.py", "tests/test_u.py", text)
    record = played(scene, [sys.executable, "-m", "pytest", "tests"], ["u.py"])
    assert record["verdict"] == "undecided"
    assert "No module named 'no_such_module'): install it" in record["error"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-m pytest tests/test_new.py", "tests/test_new.py, not committed yet"),
        ("-m unittest tests.test_new", "tests/test_new.py, not committed yet"),
        ("-m pytest tests/test_none.py", "tests/test_none.py, which the base does not have"),
    ],
)
@beside
def test_a_test_file_that_is_not_committed_is_told(folder: Path, words: str, said: str) -> None:
    scene = scene_of(folder, "u.py", "tests/test_u.py", FUNCTION.format(module="u"))
    (scene.repo.path / "tests/test_new.py").write_text("", encoding="utf-8")
    record = played(scene, [sys.executable, *words.split()], ["u.py"])
    assert (record["verdict"], said in record["error"]) == ("undecided", True)


@pytest.mark.more
@beside
def test_a_missing_program_is_told(folder: Path) -> None:
    scene = scene_of(folder, "u.py", "tests/test_u.py", FUNCTION.format(module="u"))
    record = played(scene, ["no-such-runner", "tests"], ["u.py"])
    assert record["verdict"] == "undecided"
    assert "could not be run: no-such-runner is not on the PATH of tests" in record["error"]


@pytest.mark.more
@beside
def test_a_python_without_pytest_is_told(folder: Path) -> None:
    scene = scene_of(folder, "u.py", "tests/test_u.py", FUNCTION.format(module="u"))
    venv.create(folder / "env", symlinks=True, with_pip=False)
    record = played(scene, [str(folder / "env/bin/python"), "-m", "pytest", "tests"], ["u.py"])
    assert record["verdict"] == "undecided"
    assert "No module named pytest: install pytest there" in record["error"]


@pytest.mark.more
@pytest.mark.parametrize("command", ["check-all", "python -m unittest -q tests.test_u"])
@beside
def test_what_the_set_up_installs_is_there(folder: Path, command: str) -> None:
    installs = (
        "printf '#!/bin/sh\\nexec python -m unittest -q tests.test_u' > $VIRTUAL_ENV/bin/check-all"
        ' && chmod +x $VIRTUAL_ENV/bin/check-all && python -c "import pathlib, sysconfig;'
        " pathlib.Path(sysconfig.get_path('purelib'), 'extra.py').touch()\""
    )
    files = {"u.py": WRONG, "tests/test_u.py": "import extra\n" + CASE.format(module="u")}
    scene = Scene(folder, files, config=f"[workspace]\nsetup = [{json.dumps(installs)}]\n")
    record = played(scene, command.split(), ["u.py"], right("u.py"))
    assert (record["verdict"], record["error"]) == ("verified", None)
