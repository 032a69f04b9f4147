"""A project for every test of the command lines; its repository is made once and copied."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import Project, make_template


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_template(tmp_path_factory.mktemp("template") / "repo")


@pytest.fixture
def at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as a user whose home is empty, for programs called in it."""
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TIDEGATE_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def project(tmp_path: Path, template: Path) -> Project:
    return Project(tmp_path, template)
