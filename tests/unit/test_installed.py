"""An installed copy, laid out as pyproject.toml says, works as a checkout does."""

from __future__ import annotations

import glob
import json
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.support.interpreter import PYTHON
from tests.support.repos import user_environ

pytestmark = pytest.mark.in_walls

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SETUPTOOLS: dict[str, Any] = PROJECT["tool"]["setuptools"]
FOLDERS: dict[str, str] = SETUPTOOLS["package-dir"]
TOP = tuple(folder for package, folder in FOLDERS.items() if "." in package)


def source_of(package: str) -> Path:
    """The folder of the checkout, as setuptools looks for it: by the longest renamed parent."""
    parent, rest = package, ""
    while parent not in FOLDERS:
        parent, _, name = parent.rpartition(".")
        rest = f"{name}/{rest}"
    return ROOT / FOLDERS[parent] / rest


def package_of(folder: Path) -> str:
    inside = folder.relative_to(ROOT).as_posix()
    renamed = {name: package for package, name in FOLDERS.items()}
    return renamed.get(inside) or f"tidegate.{inside.replace('/', '.')}"


def installed() -> dict[str, Path]:
    """Each file's place below `site-packages`, with where it comes from."""
    found: dict[str, Path] = {}
    for package in SETUPTOOLS["packages"]:
        source, data = source_of(package), SETUPTOOLS["package-data"].get(package, ())
        for pattern in ("*.py", *data):
            # As setuptools looks: unlike pathlib, with `*` for no name that begins with a dot.
            for name in glob.glob(pattern, root_dir=source, recursive=True):  # noqa: PTH207
                if (source / name).is_file():
                    found[f"{package.replace('.', '/')}/{name}"] = source / name
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A `site-packages` that somebody else's `tools` is in, too."""
    folder = tmp_path_factory.mktemp("site")
    for name, source in installed().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, folder / name)
    foreign_tools(folder)
    return folder


def foreign_tools(folder: Path) -> None:
    (folder / "tools").mkdir()
    (folder / "tools" / "__init__.py").write_text("NAME = 'foreign'\n", encoding="utf-8")


def python(site: Path, cwd: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    environ = user_environ(cwd / "home", PYTHONPATH=str(site))
    return subprocess.run(
        [*PYTHON, *argv],
        check=False,
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=120,
    )


def console(*argv: str) -> tuple[str, ...]:
    """The console command, as the file that pip writes for it starts it."""
    module, _, function = PROJECT["project"]["scripts"]["tidegate"].partition(":")
    return ("-c", f"import sys; from {module} import {function}; sys.exit({function}())", *argv)


def test_every_folder_of_modules_is_in_the_list_of_packages() -> None:
    modules = (path for top in TOP for path in (ROOT / top).rglob("*.py"))
    there, listed = {package_of(path.parent) for path in modules}, set(SETUPTOOLS["packages"])
    told = "[tool.setuptools] packages in pyproject.toml"
    assert there <= listed, f"add to {told}: {sorted(there - listed)}"
    assert listed <= there, f"remove from {told}: {sorted(listed - there)}"


def test_every_file_is_installed_in_one_folder() -> None:
    files = {path for top in TOP for path in (ROOT / top).rglob("*") if path.is_file()}
    files = {path for path in files if "__pycache__" not in path.parts}
    assert files - set(installed().values()) == set()
    assert {name.split("/")[0] for name in installed()} == {"tidegate"}


@pytest.mark.more
def test_the_demo_runs_installed_beside_the_tools_of_others(site: Path, tmp_path: Path) -> None:
    foreign_tools(tmp_path)
    done = python(site, tmp_path, *console("run", "--execute", "--demo", "demo"))
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["items_shipped"]) == 6
    assert "next, your own work: tidegate init, in" in done.stderr.splitlines()[-1]


def test_python_m_is_the_console_command(site: Path, tmp_path: Path) -> None:
    foreign_tools(tmp_path)
    by_module = python(site, tmp_path, "-m", "tidegate", "--help")
    assert by_module.stdout.startswith("usage: python -m tidegate WORD")
    by_command = by_module.stdout.replace("python -m tidegate", "tidegate")
    assert by_command == python(site, tmp_path, *console("--help")).stdout


IMPORTED = "import tidegate, driver, tools, state_store; print(tools.__path__[0])"


def test_who_imports_the_package_can_import_its_parts(site: Path, tmp_path: Path) -> None:
    done = python(site, tmp_path, "-c", IMPORTED)
    assert (done.stderr, done.stdout.strip()) == ("", str(site / "tidegate" / "tools"))


def test_an_editable_install_imports_from_the_checkout(tmp_path: Path) -> None:
    (tmp_path / "tidegate").symlink_to(ROOT / FOLDERS["tidegate"])
    done = python(tmp_path, tmp_path, "-c", IMPORTED)
    assert (done.stderr, done.stdout.strip()) == ("", str(ROOT / "tools"))


def test_nothing_is_mixed_with_the_tools_that_a_program_has_loaded(
    site: Path, tmp_path: Path
) -> None:
    done = python(site, tmp_path, "-c", "import tools, tidegate")
    assert "ImportError: tidegate cannot be imported: another 'tools' is loaded" in done.stderr
    assert python(site, tmp_path, "-c", "import tools; print(tools.NAME)").stdout == "foreign\n"
