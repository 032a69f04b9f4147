"""New Python modules: which run by themselves, and which work needs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.checkout_guard.installed import (
    distribution_names,
    import_names,
    is_module,
    runs_by_itself,
)
from driver.policy.installed_modules import may_name_dependencies, of_installed

PACKAGES = "/v/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("name", "entry_points", "expected"),
    [
        ("requests", None, False),
        ("six.py", None, False),
        ("evil.pth", None, True),
        ("__editable__.shop-1.0.pth", None, True),
        ("sitecustomize.py", None, True),
        ("usercustomize", None, True),
        ("shop.egg-link", None, True),
        ("requests-2.0.dist-info", None, False),
        ("requests-2.0.dist-info", "[console_scripts]\nx = y:z\n", False),
        ("requests-2.0.dist-info", "[console_scripts]\nx = y:z\n[pytest11]\nx = y\n", True),
        ("flake8_x-1.dist-info", "[ flake8.extension ]\nX = x:X\n", True),
    ],
)
def test_plugins_and_what_python_runs_at_its_start_run_by_themselves(
    tmp_path: Path, name: str, entry_points: str | None, expected: bool
) -> None:
    path = tmp_path / "site-packages" / name
    path.mkdir(parents=True)
    if entry_points is not None:
        (path / "entry_points.txt").write_text(entry_points)
    assert is_module(str(path))
    assert runs_by_itself(str(path)) is expected


def test_modules_and_distributions_have_the_names_that_people_use() -> None:
    names = ("yaml", "_yaml.cpython-311.so", "PyYAML-6.0.dist-info", "six.py", "a.b-1.egg-info")
    paths = [f"{PACKAGES}/{name}" for name in names]
    assert import_names(paths) == {"yaml", "_yaml", "six"}
    assert distribution_names(paths) == {"pyyaml", "a-b"}


@pytest.mark.parametrize(
    ("work", "dependencies", "held"),
    [
        ("x = 1\n", "", False),
        ("import os, yaml\n", "", True),
        ("def f():\n    from yaml.nodes import Node\n", "", True),
        ("import yaml\n", 'dependencies = ["PyYAML >= 6"]', False),
        ("import yaml\n", "requests==2.0\n", True),
        ("# import yaml\nyamlish = 1\n", "", False),
    ],
)
def test_a_module_that_no_dependency_names_is_held_against_work_that_imports_it(
    work: str, dependencies: str, held: bool
) -> None:
    [finding] = of_installed({"yaml"}, {"pyyaml"}, {"a.py": work}, dependencies)
    assert finding.is_held is held
    assert not (held and finding.by_agent)
    assert "[workspace] setup" in finding.remedy


def test_without_new_modules_there_is_no_finding() -> None:
    assert of_installed((), (), {"a.py": "import yaml"}, "") == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("pyproject.toml", True),
        ("svc/requirements-dev.txt", True),
        ("requirements/base.in", True),
        ("uv.lock", True),
        ("src/pyproject.py", False),
    ],
)
def test_files_that_name_dependencies(path: str, expected: bool) -> None:
    assert may_name_dependencies(path) is expected
