"""Which build folders a checkout would share with others, and where its own are."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.filesystem.build_folders import private_builds


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "home" / "cache" / "1"
    (top / "crate").mkdir(parents=True)
    return top


def configured(folder: Path, text: str, name: str = "config.toml") -> None:
    (folder / ".cargo").mkdir(parents=True, exist_ok=True)
    (folder / ".cargo" / name).write_text(text)


def builds(top: Path, **environ: str) -> dict[str, str]:
    given = {"HOME": str(top.parents[1]), **environ}
    return private_builds(given, top, "crate", top)


def test_without_a_shared_folder_nothing_is_set(top: Path) -> None:
    assert builds(top, MYPY_CACHE_DIR="cache", CARGO_TARGET_DIR=str(top / "out")) == {}


def test_variables_that_name_a_folder_elsewhere_name_the_usual_one(top: Path) -> None:
    found = builds(top, MYPY_CACHE_DIR="/shared/mypy", CARGO_TARGET_DIR="../../target")
    assert found == {"MYPY_CACHE_DIR": f"{top}/.mypy_cache", "CARGO_TARGET_DIR": f"{top}/target"}


@pytest.mark.parametrize("name", ["config", "config.toml"])
def test_a_configuration_of_cargo_in_the_home(top: Path, name: str) -> None:
    configured(top.parents[1], '[build]\ntarget-dir = "/shared"\n', name)
    assert builds(top) == {"CARGO_TARGET_DIR": f"{top}/target"}


def test_the_nearest_configuration_decides(top: Path) -> None:
    configured(top.parents[1], '[build]\ntarget-dir = "/shared"\n')
    configured(top, '[build]\ntarget-dir = "out"\n')
    assert builds(top) == {}
    configured(top / "crate", '[build]\ntarget-dir = "../../out"\n')
    assert builds(top) == {"CARGO_TARGET_DIR": f"{top}/target"}


def test_cargo_home_and_build_folders_with_a_template(top: Path, tmp_path: Path) -> None:
    cargo = tmp_path / "cargo"
    cargo.mkdir()
    template = "{cargo-cache-home}/{workspace-path-hash}"
    (cargo / "config.toml").write_text(f'[build]\nbuild-dir = "{template}"\n')
    assert builds(top, CARGO_HOME=str(cargo)) == {}
    (cargo / "config.toml").write_text('[build]\nbuild-dir = "/shared"\n')
    assert builds(top, CARGO_HOME=str(cargo)) == {"CARGO_BUILD_BUILD_DIR": f"{top}/target"}


@pytest.mark.parametrize("text", ["no = [toml", "build = 3", "[build]\ntarget-dir = 3", "\x00"])
def test_a_configuration_that_cannot_be_read_sets_nothing(top: Path, text: str) -> None:
    configured(top, text)
    assert builds(top) == {}
