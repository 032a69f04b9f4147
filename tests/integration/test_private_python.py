"""A set-up that installs Python packages never touches the user's environment."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest

from driver.filesystem.tree import snapshot
from driver.git.private_git import PrivateGit, open_repository
from driver.preparation.private_python import PrivatePython, may_install_python
from driver.workspace.clone_context import CloneContext
from driver.workspace.setup import Preparation
from tests.integration.test_workspace import run_shell
from tests.support.repos import make_repo, user_environ
from tests.support.waves import Agent, Scene, built, item, verdicts

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="environments of POSIX systems"),
    pytest.mark.skipif(importlib.util.find_spec("pip") is None, reason="pip is not installed"),
]

# A build backend that needs nothing: its wheel only points to src/.
BACKEND = """\
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name, info = "shop-1.0-py3-none-any.whl", "shop-1.0.dist-info"
    files = {
        "shop.pth": str(pathlib.Path("src").resolve()) + "\\n",
        info + "/METADATA": "Metadata-Version: 2.1\\nName: shop\\nVersion: 1.0\\n",
        info + "/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[info + "/RECORD"] = "".join(path + ",,\\n" for path in [*files, info + "/RECORD"])
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
    return name
"""
PROJECT = (
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    '[project]\nname = "shop"\nversion = "1.0"\n'
)
FILES = {
    "pyproject.toml": PROJECT,
    "backend.py": BACKEND,
    "src/shop/__init__.py": "",
    "src/shop/base.py": "BASE = 1\n",
}
INSTALL = (
    "python -m pip install --quiet --disable-pip-version-check --no-index --no-build-isolation"
    " --no-deps -e ."
)


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """An active virtual environment of the user, which sees pip."""
    folder = tmp_path / "users-venv"
    venv.create(folder, system_site_packages=True, with_pip=False, symlinks=True)
    return folder


def active(users: Path) -> dict[str, str]:
    return {"PATH": f"{users}/bin{os.pathsep}{os.environ['PATH']}"}


def test_items_that_install_themselves_do_not_meet_in_the_users_environment(
    tmp_path: Path, users: Path
) -> None:
    config = f"[workspace]\nsetup = [{json.dumps(INSTALL)}]\n"
    scene = Scene(tmp_path, FILES, config=config, environ=active(users))
    # The user works with the checkout in this environment.
    subprocess.run(shlex.split(INSTALL), cwd=scene.repo.path, env=scene.environ, check=True)
    before = snapshot(users)
    seen = dict[str, str]()

    def agent(name: str) -> object:
        def step(agent: Agent) -> None:
            agent.write({f"src/shop/{name}.py": f"NAME = {name!r}\n"})
            where = "import shop.base; print(shop.base.__file__)"
            env = {**scene.environ, **agent.request.environment}
            done = subprocess.run(
                ("python", "-c", where), env=env, cwd=tmp_path, capture_output=True, check=True
            )
            seen[name] = done.stdout.decode().strip()
            assert seen[name].startswith(str(agent.folder))

        return step

    names = ("one", "two")
    tasks = [
        item(
            name,
            f"src/shop/{name}.py",
            f"python -c 'import shop.{name}, os; assert os.getcwd() in shop.{name}.__file__'",
            requireAdversarialReview=False,
        )
        for name in names
    ]
    report, _ = scene.play({name: agent(name) for name in names}, tasks)
    assert verdicts(report) == {"one": "verified", "two": "verified"}, str(built(report))
    assert report["shipped"] == ["one", "two"]
    assert seen.keys() == {"one", "two"}
    assert snapshot(users) == before


def python_of(environ: Mapping[str, str], code: str) -> str:
    done = subprocess.run(("python", "-c", code), env=environ, capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.mark.more
def test_an_environment_sees_the_users_packages_and_puts_its_own_first(
    tmp_path: Path, users: Path
) -> None:
    environ = {**active(users), "HOME": str(tmp_path)}
    [library] = (users / "lib").glob("python*/site-packages")
    (library / "alpha.py").write_text("V = 'users'\n")
    (library / "beta.py").write_text("V = 'users'\n")
    for spaced in ("plain", "with a space"):
        folder = tmp_path / spaced
        private = {**environ, **PrivatePython(environ, tmp_path).make(folder)}
        [own] = (folder / "lib").glob("python*/site-packages")
        (own / "alpha.py").write_text("V = 'own'\n")
        code = "import alpha, beta, sys; print(alpha.V, beta.V, sys.prefix)"
        assert python_of(private, code) == f"own users {folder}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("spaced", ["plain", "with a space", "long/" * 30 + "x"])
def test_scripts_of_the_users_environment_run_in_the_private_one(
    tmp_path: Path, users: Path, spaced: str
) -> None:
    environ = {**active(users), "HOME": str(tmp_path)}
    tool = users / "bin" / "tool"
    body = "# -*- coding: utf-8 -*-\nimport sys; print(sys.prefix, *sys.argv[1:])\n"
    other = users / "bin" / "other"
    other.write_text("#!/bin/sh\necho other\n")
    for starter in (
        f"#!{users}/bin/python\n",
        f"#!/bin/sh\n'''exec' {users}/bin/python \"$0\"\n' '''\n",
    ):
        tool.write_text(starter + body)
        for one in (tool, other):
            one.chmod(0o755)
        folder = tmp_path / spaced / str(len(starter))
        private = {**environ, **PrivatePython(environ, tmp_path).make(folder)}
        done = subprocess.run(("tool", "a b"), env=private, capture_output=True, check=True)
        assert done.stdout.decode() == f"{folder} a b\n"
        assert not (folder / "bin" / "other").exists()


def test_without_a_python_nothing_is_made(tmp_path: Path) -> None:
    assert PrivatePython({"PATH": str(tmp_path)}, tmp_path).make(tmp_path / "e") == {}
    broken = tmp_path / "bin" / "python3"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert PrivatePython({"PATH": str(broken.parent)}, tmp_path).make(tmp_path / "e") == {}
    assert not (tmp_path / "e").exists()


@pytest.mark.more
def test_what_a_test_installs_is_not_there_for_the_next(tmp_path: Path, users: Path) -> None:
    environ = user_environ(tmp_path / "home", **active(users))
    repo = open_repository(make_repo(tmp_path / "repo", environ, FILES).path, environ)
    git = PrivateGit.create(tmp_path / "private", repo, environ)
    python = PrivatePython(environ, repo.top)
    prepare = Preparation((), ("true",), run_shell, python=python)
    context = CloneContext(tmp_path / "root", git, repo, prepare)
    pool = context.pool(1)
    with pool.checkout(context.base_tree) as first:
        [library] = Path(first.environment["VIRTUAL_ENV"]).glob("lib/python*/site-packages")
        (library / "left.py").write_text("")
    with pool.checkout(context.base_tree) as second:
        assert second.path != first.path
        assert not library.exists()
        python_of({**environ, **second.environment}, "import sys; assert 'left' not in sys.modules")
    workspace = context.workspace("w")
    private = Path(workspace.environment["VIRTUAL_ENV"])
    assert private.is_dir()
    workspace.close()
    assert not private.exists()


@pytest.mark.parametrize(
    ("command", "may"),
    [
        ("pip install -e .", True),
        ("make deps", True),
        ("sh tools/setup.sh", True),
        ("if x; then y", True),
        (("uv", "sync"), True),
        ("npm ci", False),
        ("npm ci && go mod download", False),
        (("cargo", "fetch"), False),
        ("npm ci && pip install x", True),
    ],
)
def test_only_a_set_up_that_may_install_python_gets_an_environment(
    command: str | tuple[str, ...], may: bool
) -> None:
    assert may_install_python([command]) is may
    assert not may_install_python([])
