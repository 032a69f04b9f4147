"""The view of a home whose settings changed: only these are as they were, all else is shared."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from driver.checkout_guard.home_settings import HomeSettings

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name, text in {
        ".npmrc": "a=1\n",
        ".config/ruff/ruff.toml": "line-length = 80\n",
        ".config/other/settings": "x\n",
        ".cargo/config.toml": "[net]\n",
        ".cargo/registry/index": "kept\n",
        ".cache/pip/wheel": "w\n",
        ".ssh/id": "secret\n",
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    return home


def settings(home: Path, **more: str) -> HomeSettings:
    return HomeSettings({"HOME": str(home), **more}, home.parent / "views")


def test_without_a_change_tests_have_the_users_own_home(home: Path) -> None:
    found = settings(home)
    (home / ".config/other/settings").write_text("changed\n")
    (home / ".cargo/registry/new").touch()
    with found.variables() as variables:
        assert variables == {}
    assert not (home.parent / "views").exists()


CHANGES: dict[str, Callable[[Path], object]] = {
    ".npmrc": lambda home: (home / ".npmrc").write_text("script-shell=evil\n"),
    ".config/ruff": lambda home: (home / ".config/ruff/ruff.toml").write_text("ignore = []\n"),
    ".cargo/config.toml": lambda home: (home / ".cargo/config.toml").unlink(),
    ".config/mypy": lambda home: [
        (home / ".config/mypy").mkdir(),
        (home / ".config/mypy/config").write_text("[mypy]\nignore_errors = True\n"),
    ],
    ".pylintrc": lambda home: (home / ".pylintrc").symlink_to("/dev/null"),
    ".gradle/init.d": lambda home: (home / ".gradle/init.d").mkdir(parents=True),
}


def everything(top: Path) -> dict[str, str]:
    """The texts of a folder's files; links are followed."""
    found = (
        Path(folder, name) for folder, _, names in os.walk(top, followlinks=True) for name in names
    )
    return {path.relative_to(top).as_posix(): path.read_text() for path in found}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_setting_is_as_it_was_and_the_rest_is_the_users(home: Path, name: str) -> None:
    found, before = settings(home), everything(home)
    CHANGES[name](home)
    assert found.changed() == (f"{home}/{name}",)
    with found.variables() as variables:
        view = Path(variables["HOME"])
        assert everything(view) == before
        (view / ".cache/pip/new").touch()
        assert view.joinpath(".ssh").is_symlink()
    assert (home / ".cache/pip/new").exists()
    assert not view.exists()
    assert (home / ".ssh/id").exists()


def test_what_a_test_writes_there_reaches_no_other_test(home: Path) -> None:
    found = settings(home)
    (home / ".npmrc").unlink()
    with found.variables() as first, found.variables() as second:
        Path(first["HOME"], ".npmrc").write_text("forged\n")
        assert Path(second["HOME"], ".npmrc").read_text() == "a=1\n"
    assert not (home / ".npmrc").exists()


def test_folders_that_variables_move_have_a_view_of_their_own(home: Path, tmp_path: Path) -> None:
    config = tmp_path / "config"
    (config / "ruff").mkdir(parents=True)
    found = settings(home, XDG_CONFIG_HOME=str(config), CARGO_HOME=str(home / ".cargo"))
    (config / "ruff" / "ruff.toml").touch()
    with found.variables() as variables:
        assert {*variables} == {"XDG_CONFIG_HOME"}
        assert list(Path(variables["XDG_CONFIG_HOME"], "ruff").iterdir()) == []
    (home / ".cargo" / "config.toml").unlink()
    with found.variables() as variables:
        assert Path(variables["CARGO_HOME"], "config.toml").read_text() == "[net]\n"
        assert Path(variables["HOME"], ".cargo", "config.toml").read_text() == "[net]\n"


def test_a_change_of_what_a_link_leads_to_is_a_change(home: Path) -> None:
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "flake8").write_text("[flake8]\n")
    (home / ".flake8").symlink_to("dotfiles/flake8")
    found = settings(home)
    (home / "dotfiles" / "flake8").write_text("[flake8]\nignore = E,W,F\n")
    with found.variables() as variables:
        assert Path(variables["HOME"], ".flake8").read_text() == "[flake8]\n"


def test_programs_in_java_are_told_where_the_home_is(home: Path) -> None:
    found = settings(home, MAVEN_OPTS="-Xmx1g")
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text("<settings/>")
    with found.variables() as variables:
        view = variables["HOME"]
        assert variables["MAVEN_OPTS"] == f"-Xmx1g -Duser.home={view}"
        assert variables["GRADLE_USER_HOME"] == f"{view}/.gradle"
        assert not Path(view, ".m2", "settings.xml").exists()


def test_each_change_is_told_once(home: Path) -> None:
    found = settings(home)
    assert found.unreported(found.changed()) == ()
    (home / ".npmrc").unlink()
    assert found.unreported(found.changed()) == (f"{home}/.npmrc",)
    assert found.unreported(found.changed()) == ()


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}, {"HOME": "/nowhere"}])
def test_without_a_home_there_is_no_view(environ: dict[str, str], tmp_path: Path) -> None:
    found = HomeSettings(environ, tmp_path)
    with found.variables() as variables:
        assert variables == {}
