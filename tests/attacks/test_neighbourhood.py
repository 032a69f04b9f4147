"""What lies around a proving tree, and makes a test green that is red anywhere else."""

from __future__ import annotations

import site
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.beside import beside
from tests.support.interpreter import PYTHON
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
UNITTEST = [*PYTHON, "-m", "unittest", "discover", "-s", "tests"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "tests"]


@pytest.mark.parametrize("command", [pytest.param(UNITTEST, marks=pytest.mark.sweep), PYTEST])
@beside
def test_a_test_that_imports_another_checkout_proves_nothing(
    folder: Path, command: list[str]
) -> None:
    scene = Scene(
        folder,
        SHOP,
        config='[verify]\nenv = ["PYTHONPATH"]\n',
        environ={"PYTHONPATH": str(folder / "repo" / "src")},
    )
    broken = lambda agent: agent.write({"src/shop/price.py": "no Python\n"})  # noqa: E731
    report, _ = scene.play({"a": broken}, [item("a", "src/shop/price.py", command)])
    assert verdicts(report) == {"a": "undecided"}
    assert f"{folder}/repo/src/shop/price.py in place of" in built(report)["a"]["error"]


@pytest.mark.more
@pytest.mark.parametrize("command", [UNITTEST, pytest.param(PYTEST, marks=pytest.mark.sweep)])
@beside
def test_a_test_that_imports_the_tree_is_believed(folder: Path, command: list[str]) -> None:
    scene = Scene(folder, SHOP, config='[verify]\nenv = ["PYTHONPATH"]\n')
    scene.environ["PYTHONPATH"] = "src"
    better = lambda agent: agent.write({"src/shop/price.py": "def price(x): return +x\n"})  # noqa: E731
    report, _ = scene.play({"a": better}, [item("a", "src/shop/price.py", command)])
    assert verdicts(report) == {"a": "verified"}


CALC = {
    "tests/__init__.py": "",
    "calc.py": "def twice(x):\n    return x\n",
    "tests/test_calc.py": """
import unittest
from calc import twice
class Twice(unittest.TestCase):
    def test_twice(self): self.assertEqual(twice(2), 4)
""",
}
IN_CALC = [*PYTHON, "-m", "unittest", "discover", "-s", "tests", "-t", "."]
A_FILTER = """
[filter "cheat"]
\tsmudge = sed 's/return x/return x + x/'
\tclean = sed 's/return x + x/return x/'
"""
MODULES = f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


def _private_filter(agent: Agent, scene: Scene) -> None:
    del scene
    agent.write({"calc.py": "def twice(x):\n    return x  # done\n"})
    git = agent.folder.parents[1] / "private.git"
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").write_text("calc.py filter=cheat\n")
    with (git / "config").open("a") as config:
        config.write(A_FILTER)


def _conftest_above(agent: Agent, scene: Scene) -> None:
    del scene
    agent.write({"calc.py": "def twice(x):\n    return x  # done\n"})
    above = agent.folder.parents[1] / "proving"
    (above / "pytest.ini").write_text("[pytest]\n")
    (above / "conftest.py").write_text("import calc\ncalc.twice = lambda x: x + x\n")


def _module_at_home(agent: Agent, scene: Scene) -> None:
    home = Path(scene.environ["HOME"], MODULES)
    home.mkdir(parents=True)
    (home / "twice_at_home.py").write_text("def twice(x):\n    return x + x\n")
    agent.write({"calc.py": "from twice_at_home import twice\n"})


def _plugin_at_home(agent: Agent, scene: Scene) -> None:
    metadata = Path(scene.environ["HOME"], MODULES, "evil-1.dist-info")
    metadata.mkdir(parents=True)
    metadata.joinpath("entry_points.txt").write_text("[pytest11]\nevil = evil\n")
    agent.write({"calc.py": "def twice(x):\n    return x + x\n"})


@pytest.mark.more
@pytest.mark.parametrize(
    ("attack", "command", "verdict"),
    [
        (_private_filter, IN_CALC, "refused"),
        (_conftest_above, [sys.executable, "-m", "pytest", "-q", "tests"], "refused"),
        (_plugin_at_home, IN_CALC, "undecided"),  # the user may have installed it
    ],
)
@beside
def test_who_changes_what_all_tests_run_with_ships_nothing(
    folder: Path, attack: Callable[[Agent, Scene], None], command: list[str], verdict: str
) -> None:
    scene = Scene(folder, CALC)
    owned = item("a", "calc.py", command, repairCap=0)
    report, _ = scene.play({"a": lambda agent: attack(agent, scene)}, [owned])
    assert (verdicts(report), report["shipped"]) == ({"a": verdict}, [])
    assert "the environment of all tests changed" in built(report)["a"]["error"]


@pytest.mark.more
@pytest.mark.skipif(
    not site.ENABLE_USER_SITE, reason="this Python imports nothing from the home folder"
)
@beside
def test_work_that_imports_what_was_installed_meanwhile_waits_for_a_person(folder: Path) -> None:
    scene = Scene(folder, CALC, config='[sandbox]\nhome = "host"\n')
    owned = item("a", "calc.py", [sys.executable, "-m", "pytest", "-q", "tests"])
    report, driver = scene.play({"a": lambda agent: _module_at_home(agent, scene)}, [owned])
    assert (verdicts(report), len(driver.requests)) == ({"a": "undecided"}, 1)
    why = built(report)["a"]["error"]
    assert "imports a module that was installed meanwhile: twice_at_home" in why
    assert "[workspace] setup" in why


@pytest.mark.more
@beside
def test_a_library_that_an_agent_installs_is_no_offence_and_told(folder: Path) -> None:
    scene = Scene(folder, CALC)

    def installs(agent: Agent) -> None:
        home = Path(scene.environ["HOME"], MODULES)
        (home / "requests").mkdir(parents=True)
        (home / "requests" / "__init__.py").touch()
        (home / "requests-2.0.dist-info").mkdir()
        scripts = "[console_scripts]\nask = requests:main\n"
        (home / "requests-2.0.dist-info" / "entry_points.txt").write_text(scripts)
        agent.write({"calc.py": "def twice(x):\n    return 2 * x\n"})

    report, driver = scene.play({"a": installs}, [item("a", "calc.py", IN_CALC)])
    assert (verdicts(report), len(driver.requests)) == ({"a": "verified"}, 1)
    [doubt] = built(report)["a"]["attempts"][-1]["evidence"]["doubts"]
    assert "installed while items were at work: requests" in doubt["reason"]
    assert "site-packages/requests" in report["shipped_repos"][0]["warning"]


@pytest.mark.more
@pytest.mark.parametrize("name", [".cargo/registry", ".npm/_cacache", ".m2/repository", "go/pkg"])
@beside
def test_a_cache_that_a_tool_makes_at_its_first_use_is_no_offence(folder: Path, name: str) -> None:
    """The test checkouts are below the home, so tools look there for their configuration."""
    scene = Scene(folder, CALC)
    scene.environ["XDG_CACHE_HOME"] = f"{scene.environ['HOME']}/.cache"
    cached = Path(scene.environ["HOME"], name)

    def agent(agent: Agent) -> None:
        cached.mkdir(parents=True)
        cached.with_name(".package-cache").touch()
        agent.write({"calc.py": "def twice(x):\n    return 2 * x\n"})

    report, _ = scene.play({"a": agent}, [item("a", "calc.py", IN_CALC)])
    assert verdicts(report) == {"a": "verified"}
    assert "changed in your checkout" not in report["shipped_repos"][0]["warning"]


@pytest.mark.more
@beside
def test_set_up_commands_may_install_modules(folder: Path) -> None:
    commands = f"mkdir -p $HOME/{MODULES} && date >> $HOME/{MODULES}/made.txt"
    scene = Scene(folder, CALC, config=f"[workspace]\nsetup = ['{commands}']\n")
    right = writes(calc__py="def twice(x):\n    return 2 * x\n")
    report, _ = scene.play({"a": right}, [item("a", "calc.py", IN_CALC)])
    assert verdicts(report) == {"a": "verified"}


@pytest.mark.more
@pytest.mark.parametrize("was_there", [True, False])
@pytest.mark.parametrize(
    ("key", "verdict"), [("core.hooksPath", "undecided"), ("user.email", "verified")]
)
@beside
def test_git_configuration_of_every_repository_is_watched_but_for_names(
    folder: Path, key: str, verdict: str, was_there: bool
) -> None:
    scene = Scene(folder, CALC)
    mine = Path(scene.environ["HOME"], ".gitconfig")
    if not was_there:
        mine.unlink(missing_ok=True)

    def agent(agent: Agent) -> None:
        agent.write({"calc.py": "def twice(x):\n    return 2 * x\n"})
        scene.repo.git("config", "--global", key, "/tmp/hooks")

    report, _ = scene.play({"a": agent}, [item("a", "calc.py", IN_CALC, repairCap=0)])
    assert verdicts(report) == {"a": verdict}
