"""Toolchains inside of each level of walls: a set-up installs, then a test and an agent use it.

Each entry is tried where its tool is installed and its registry is in reach, else skipped. The
default run has those that need nothing but Python and a shell.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from driver.execution.processes import Command, Finished, Processes, child_environment
from driver.filesystem.temporary import scratch_folder
from driver.preparation.private_python import PrivatePython
from driver.walls.wall import Level, Role
from driver.walls.wave_walls import Walls, walls_of
from driver.workspace.setup import environment_at, places_at, places_to_prepare
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, field
from tools.settings.load import load

pytestmark = [
    pytest.mark.in_walls,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are Linux's"),
]
LEVELS = ("bwrap", "landlock", "limits")
# At `landlock`, which cannot hide sockets outside, a database by a socket wants the first, and a
# program that writes to /tmp whatever TMPDIR says, such as pnpm 12, wants the second.
SOCKETS = "".join(f"[sandbox.{role}]\nunix_sockets = true\n" for role in ("test", "agent"))
TEMPORARY = '[sandbox.setup]\nwritable = ["/tmp"]\n'
PACKAGE = '{"name": "x", "version": "1.0.0", "dependencies": {"ms": "2.1.3"}}'
USES_IT = "node -e \"require('ms')\""
PROJECT = (
    '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.9"\ndependencies = ["six"]\n'
)
POETRY = (
    '[tool.poetry]\nname = "mine"\nversion = "1"\ndescription = ""\nauthors = []\n'
    'package-mode = false\n[tool.poetry.dependencies]\npython = ">=3.9"\nsix = "*"\n'
)
SOCKET = (
    "import os, socket, tempfile\n"
    "path = os.path.join(tempfile.mkdtemp(), 's')\n"
    "server = socket.socket(socket.AF_UNIX)\nserver.bind(path)\nserver.listen()\n"
    "socket.socket(socket.AF_UNIX).connect(path)\n"
)
POOL = (
    "import multiprocessing\n"
    "if __name__ == '__main__':\n"
    "    with multiprocessing.Pool(2) as pool:\n        assert pool.map(abs, [-1, 2]) == [1, 2]\n"
)
POSTGRES = (
    "initdb -D $TMPDIR/d >/dev/null && pg_ctl -D $TMPDIR/d -o \"-k $TMPDIR -h ''\" -w start"
    " >/dev/null && psql -h $TMPDIR -c 'select 1' postgres && pg_ctl -D $TMPDIR/d stop"
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A project, the commands of its set-up, and the test that a person would run."""

    test: str
    setup: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    fetches: bool = False
    not_as_root: bool = False


SHARES = Toolchain("python3 pool.py", files={"pool.py": POOL})
PLAIN = {
    "a virtual environment": Toolchain(
        ".venv/bin/python -c 'import sys; assert sys.prefix != sys.base_prefix'",
        ("python3 -m venv --without-pip .venv",),
    ),
    "a prefix as conda makes one": Toolchain(
        "PATH=$PWD/prefix/bin:$PATH tool",
        ("python3 -m venv --copies --without-pip prefix", "cp prefix/bin/python prefix/bin/tool"),
    ),
    "what a set-up leaves in its home": Toolchain(
        '~/.local/bin/mine && test -f "$HOME/.m2/repository/a/b.jar"',
        (
            "mkdir -p ~/.local/bin ~/.m2/repository/a && touch ~/.m2/repository/a/b.jar",
            "printf '#!/bin/sh\\n' > ~/.local/bin/mine && chmod +x ~/.local/bin/mine",
        ),
    ),
    "a database by a socket": Toolchain("python3 db.py", files={"db.py": SOCKET}),
    "processes that share memory": SHARES,
    "temporary files": Toolchain(
        'touch "$TMPDIR/x" && python3 -c "import tempfile as t; t.mkstemp()"'
    ),
}
REAL = {
    "pip": Toolchain("python -c 'import six'", ("pip install -q six",), fetches=True),
    "uv": Toolchain(
        "uv run --frozen --offline python -c 'import six'",
        ("uv sync -q",),
        {"pyproject.toml": PROJECT},
        ("uv",),
        fetches=True,
    ),
    "poetry, with its environment in the home": Toolchain(
        "poetry run python -c 'import six'",
        ("poetry install -q",),
        {"pyproject.toml": POETRY},
        ("poetry",),
        fetches=True,
    ),
    "pdm": Toolchain(
        "pdm run python -c 'import six'",
        ("pdm install -q",),
        {"pyproject.toml": f"{PROJECT}[tool.pdm]\ndistribution = false\n"},
        ("pdm",),
        fetches=True,
    ),
    "an editable install": Toolchain(
        "cd / && python -c 'import mine'",
        ("pip install -q -e .",),
        {
            "mine/__init__.py": "",
            "setup.py": "from setuptools import setup\nsetup(name='mine', packages=['mine'])\n",
        },
        fetches=True,
    ),
    "pytest-xdist": Toolchain(
        "python -m pytest -q -n 2 test_a.py",
        ("pip install -q pytest pytest-xdist",),
        {"test_a.py": "def test_a(): pass\ndef test_b(): pass\n"},
        fetches=True,
    ),
    "pyenv": Toolchain("pyenv which python && python --version", needs=("pyenv",)),
    "nvm": Toolchain('. "${NVM_DIR:-$HOME/.nvm}/nvm.sh" && nvm use node', needs=("~/.nvm/nvm.sh",)),
    "npm": Toolchain(
        f"npm ls && {USES_IT}",
        ("npm install --no-audit --no-fund",),
        {"package.json": PACKAGE},
        ("npm",),
        fetches=True,
    ),
    "node_modules by copy": Toolchain(
        USES_IT,
        files={"package.json": PACKAGE, "node_modules/ms/index.js": ""},
        needs=("node",),
    ),
    "pnpm, with its store": Toolchain(
        f"pnpm exec {USES_IT}",
        ("pnpm install",),
        {"package.json": PACKAGE},
        ("pnpm",),
        fetches=True,
    ),
    "yarn berry, with its cache in the home": Toolchain(
        f"yarn {USES_IT}",
        ("yarn install",),
        {"package.json": PACKAGE, "yarn.lock": "", ".yarnrc.yml": "enableTelemetry: false\n"},
        ("yarn",),
        fetches=True,
    ),
    "corepack": Toolchain(
        f"corepack pnpm exec {USES_IT}",
        ("corepack pnpm install",),
        {"package.json": PACKAGE.replace("{", '{"packageManager": "pnpm@9.15.0", ', 1)},
        ("corepack",),
        fetches=True,
    ),
    "cargo": Toolchain(
        "cargo test --offline -q",
        files={
            "Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
            "src/lib.rs": "#[test]\nfn t() { assert_eq!(1, 1) }\n",
        },
        needs=("cargo",),
    ),
    "go": Toolchain(
        "go test ./...",
        files={
            "go.mod": "module x\n\ngo 1.18\n",
            "a_test.go": 'package x\n\nimport "testing"\n\nfunc TestA(t *testing.T) {}\n',
        },
        needs=("go",),
    ),
    "maven": Toolchain(
        "test -d ~ && mvn -o -q validate",
        files={
            "pom.xml": "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId>"
            "<artifactId>b</artifactId><version>1</version></project>"
        },
        needs=("mvn",),
    ),
    "gradle": Toolchain(
        "gradle --offline --no-daemon -q help", files={"build.gradle": ""}, needs=("gradle",)
    ),
    "make with ccache": Toolchain(
        "make",
        files={
            "Makefile": "all: a\n\t./a\na: a.c\n\tccache gcc -o a a.c\n",
            "a.c": "int main() { return 0; }\n",
        },
        needs=("make", "ccache", "gcc"),
    ),
    "postgres": Toolchain(POSTGRES, needs=("initdb", "pg_ctl", "psql"), not_as_root=True),
    "a browser of playwright": Toolchain(
        "b=$(ls -d ~/.cache/ms-playwright/chrom*/chrome-linux/*shell | head -1) && "
        "$b --headless --no-sandbox --disable-gpu --dump-dom 'data:text/html,hello' | grep hello",
        needs=("~/.cache/ms-playwright/*/INSTALLATION_COMPLETE",),
    ),
}


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.cancel()


@pytest.fixture(scope="module")
def walls(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Walls]:
    """The walls of each level that is here."""
    found = dict[str, Walls]()
    for level in LEVELS:
        folder = tmp_path_factory.mktemp(level)
        text = f'[sandbox]\nlevel = "{level}"\n' + (
            SOCKETS + TEMPORARY if level == "landlock" else ""
        )
        (folder / "tidegate.toml").write_text(text, encoding="utf-8")
        try:
            settings = load(project=folder, environ=os.environ)
            found[level] = walls_of(settings, folder / "walls.json", (), processes)
        except CannotRunError:
            continue
    return found


def run(processes: Processes, walls: Walls, role: Role, command: str, folder: Path) -> Finished:
    """Run a command of a role in a checkout that has a private environment."""
    own = environment_at(folder)
    variables = {"PATH": f"{own}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": str(own)}
    env = child_environment(os.environ, (), variables if (own / "bin").is_dir() else {})
    places = places_at(folder, ())
    if role is Role.SETUP:
        places = places_to_prepare(places)
    return walls.around(role, places).run(processes, Command(command, folder, env, 300.0))


def try_it(processes: Processes, walls: Walls, toolchain: Toolchain, folder: Path) -> None:
    """Lay the project, prepare it, and run its test as a test and as an agent would."""
    for name, text in toolchain.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    if toolchain.setup:
        PrivatePython(child_environment(os.environ), folder).make(environment_at(folder))
    for command in toolchain.setup:
        done = run(processes, walls, Role.SETUP, command, folder)
        if toolchain.fetches and done.exit_code != 0:
            outside = processes.run(Command(command, folder, child_environment(os.environ), 300.0))
            if outside.exit_code != 0:
                pytest.skip(f"{command} fails here without walls too: {outside.stderr[-200:]}")
        assert done.exit_code == 0, (command, done)
    for role in (Role.TEST, Role.AGENT):
        done = run(processes, walls, role, toolchain.test, folder)
        assert done.exit_code == 0, (role, done)


@pytest.fixture
def checkout() -> Iterator[Path]:
    """A checkout outside of `tmp_path`, which by default lies in shared memory."""
    with scratch_folder() as folder:
        (folder / "proving" / "1").mkdir(parents=True)
        yield folder / "proving" / "1"


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_toolchain_works(
    name: str, level: str, walls: Mapping[str, Walls], processes: Processes, checkout: Path
) -> None:
    if level not in walls:
        pytest.skip(f"no {level} here")
    if not walls[level].means.namespaces and level == Level.LANDLOCK:
        pytest.skip("landlock without namespaces has no shared memory and no sockets by path")
    if checkout.is_relative_to("/dev/shm") and level == Level.LANDLOCK and PLAIN[name] is SHARES:
        pytest.skip("a checkout in shared memory leaves no private one")
    try_it(processes, walls[level], PLAIN[name], checkout)


def is_missing(needed: str) -> bool:
    if not needed.startswith("~"):
        return shutil.which(needed) is None
    return not [*Path.home().glob(needed.removeprefix("~/"))]


@pytest.mark.sweep
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", REAL)
def test_a_real_toolchain_works(
    name: str, level: str, walls: Mapping[str, Walls], processes: Processes, checkout: Path
) -> None:
    toolchain = REAL[name]
    missing = [one for one in toolchain.needs if is_missing(one)]
    if missing or level not in walls:
        pytest.skip(f"no {', '.join(missing) or level} here")
    if toolchain.not_as_root and os.geteuid() == 0:
        pytest.skip("not for root")
    try_it(processes, walls[level], toolchain, checkout)
