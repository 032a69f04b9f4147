"""Toolchains at each level: a set-up installs, then a test and an agent use it.

Each entry works at each level, or one sentence about its failure names the setting with which it
works. It is tried where its tool is installed and its registry is in reach, else skipped. The
default run has those that need nothing but Python and a shell, at the levels that run most.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from driver.domain.wall_hints import about_walls, hint_in
from driver.execution.processes import Command, Finished, Processes, child_environment
from driver.execution.sandbox_probe import kernel_facts
from driver.filesystem.temporary import scratch_folder
from driver.preparation.private_python import PrivatePython
from driver.walls.choice import Asked, candidates
from driver.walls.wall import Level, Means, Role
from driver.walls.wave_walls import Walls, walls_of
from driver.workspace.setup import environment_at, places_at, places_to_prepare
from state_store.documents.errors import CannotRunError
from state_store.values.lazy_dataclass import dataclass, field, replace
from tools.settings.load import load

pytestmark = [
    pytest.mark.in_walls,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the walls are Linux's"),
]
SHARED = "landlock without namespaces"
OF_DEFAULT_RUN = ("bwrap", "landlock", "limits")
LEVELS = (*OF_DEFAULT_RUN, SHARED, "none")
# `landlock` cannot hide sockets outside, so a database by a socket wants a setting; and a program
# that writes to /tmp whatever TMPDIR says. Without namespaces shared memory is that of the machine.
SOCKETS = "".join(f"[sandbox.{role}]\nunix_sockets = true\n" for role in ("test", "agent"))
TEMPORARY = '[sandbox.setup]\nwritable = ["/tmp"]\n'
SETTINGS = {
    "landlock": SOCKETS + TEMPORARY,
    SHARED: SOCKETS.replace("= true", '= true\nwritable = ["/dev/shm"]') + TEMPORARY,
}
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
    "initdb -D $TMPDIR/d >/dev/null && pg_ctl -D $TMPDIR/d -l $TMPDIR/log"
    " -o \"-k $TMPDIR -h ''\" -w start >/dev/null || { cat $TMPDIR/log; false; } &&"
    " psql -h $TMPDIR -c 'select 1' postgres && pg_ctl -D $TMPDIR/d stop"
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A project, the commands of its set-up, and the test that a person would run. `wants` are the
    levels at which it may ask for a setting."""

    test: str
    setup: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    fetches: bool = False
    not_as_root: bool = False
    wants: tuple[str, ...] = ()


SHARES = Toolchain("python3 pool.py", files={"pool.py": POOL}, wants=(SHARED,))
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
    "a database by a socket": Toolchain(
        "python3 db.py", files={"db.py": SOCKET}, wants=("landlock", SHARED)
    ),
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
    "nodeenv": Toolchain(
        ". nodes/bin/activate && node --version",
        ("pip install -q nodeenv && nodeenv -q --node=system nodes",),
        needs=("node",),
        fetches=True,
    ),
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
        wants=("landlock", SHARED),
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
        ("COREPACK_INTEGRITY_KEYS=0 corepack pnpm install",),  # mirrors have no signatures
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
    "postgres": Toolchain(
        POSTGRES,
        needs=("initdb", "pg_ctl", "psql"),
        not_as_root=True,
        wants=("landlock", SHARED),
    ),
    "a browser of the system": Toolchain(
        "chromium-headless-shell --headless --no-sandbox --disable-gpu --user-data-dir=$TMPDIR/u"
        " --dump-dom 'data:text/html,hello' | grep hello",
        needs=("chromium-headless-shell",),
        wants=("landlock", SHARED),
    ),
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


@dataclass(frozen=True, slots=True)
class Here:
    """The walls of a level, by the usual settings and by those with which all works."""

    usual: Walls
    opened: Walls


@pytest.fixture(scope="module")
def walls(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Here]:
    """The walls of each level that is here."""
    found = dict[str, Here]()
    for level in LEVELS:
        with suppress(CannotRunError):
            found[level] = Here(
                *(
                    made(processes, tmp_path_factory.mktemp("walls"), level, more)
                    for more in ("", SETTINGS.get(level, ""))
                )
            )
    return found


def made(processes: Processes, folder: Path, level: str, more: str) -> Walls:
    text = f'[sandbox]\nlevel = "{level.partition(" ")[0]}"\n{more}'
    (folder / "tidegate.toml").write_text(text, encoding="utf-8")
    settings = load(project=folder, environ=os.environ)
    walls = walls_of(settings, folder / "walls.json", (), processes)
    return walls if level != SHARED else replace(walls, means=without_namespaces())


def without_namespaces() -> Means:
    """The means of `landlock` where the system forbids namespaces to its users."""
    means = candidates(Asked(Level.LANDLOCK), kernel_facts(), os.environ, ())
    found = next((one for one in means if not one.namespaces), None)
    if found is None:
        raise CannotRunError("no landlock")
    return found


def run(
    processes: Processes,
    walls: Walls,
    role: Role,
    command: str,
    folder: Path,
    environ: Mapping[str, str],
) -> Finished:
    """Run a command of a role in a checkout that has a private environment."""
    env = environment(folder, environ)
    places = places_at(folder, ())
    if role is Role.SETUP:
        places = places_to_prepare(places)
    return walls.around(role, places).run(processes, Command(command, folder, env, 300.0))


def environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    own = environment_at(folder)
    variables = {"PATH": f"{own}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": str(own)}
    return child_environment(environ, (), variables if (own / "bin").is_dir() else {})


def failure(
    processes: Processes,
    walls: Walls,
    toolchain: Toolchain,
    folder: Path,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Role, Finished] | None:
    """Lay the project, prepare it, and run its test as a test and as an agent would; returns the
    first command that failed."""
    folder.mkdir(parents=True)
    for name, text in toolchain.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    if toolchain.setup:
        PrivatePython(child_environment(environ), folder).make(environment_at(folder))
    for command in toolchain.setup:
        done = run(processes, walls, Role.SETUP, command, folder, environ)
        if toolchain.fetches and done.exit_code != 0:
            outside = processes.run(Command(command, folder, environment(folder, environ), 300.0))
            if outside.exit_code != 0:
                pytest.skip(f"{command} fails here without walls too: {outside.stderr[-200:]}")
        if done.exit_code != 0:
            return Role.SETUP, done
    for role in (Role.TEST, Role.AGENT):
        done = run(processes, walls, role, toolchain.test, folder, environ)
        if done.exit_code != 0:
            return role, done
    return None


def try_it(
    processes: Processes,
    here: Here,
    level: str,
    toolchain: Toolchain,
    folder: Path,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """It works, or it says what it wants, and works with that."""
    failed = failure(processes, here.usual, toolchain, folder / "proving" / "1", environ)
    if failed is None:
        return
    role, done = failed
    assert level in toolchain.wants, failed
    told = about_walls(here.usual.name, f"{done.stderr}\n{done.stdout}", role)
    assert hint_in(told) == told, (told, failed)
    assert failure(processes, here.opened, toolchain, folder / "proving" / "2", environ) is None


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder outside of `tmp_path`, which by default lies in shared memory."""
    with scratch_folder() as found:
        yield found


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "level",
    [pytest.param(one, marks=() if one in OF_DEFAULT_RUN else pytest.mark.sweep) for one in LEVELS],
)
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_toolchain_works(
    name: str, level: str, walls: Mapping[str, Here], processes: Processes, folder: Path
) -> None:
    if level not in walls:
        pytest.skip(f"no {level} here")
    shares_all = "landlock" in level and level != "landlock"
    if folder.is_relative_to("/dev/shm") and shares_all and PLAIN[name] is SHARES:
        pytest.skip("a checkout in shared memory leaves no private one")
    if level not in ("bwrap", "landlock") and PLAIN[name] is SHARES and not is_open("/dev/shm"):
        pytest.skip("this user may not use the shared memory of the machine")
    # Without walls a set-up writes to the home of the person who runs it.
    home = {"HOME": str(folder / "home")} if level == "none" else {}
    try_it(processes, walls[level], level, PLAIN[name], folder, {**os.environ, **home})


def is_open(folder: str) -> bool:
    return os.access(folder, os.W_OK)


def is_missing(needed: str) -> bool:
    if not needed.startswith("~"):
        return shutil.which(needed) is None
    return not [*Path.home().glob(needed.removeprefix("~/"))]


@pytest.mark.sweep
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", REAL)
def test_a_real_toolchain_works(
    name: str, level: str, walls: Mapping[str, Here], processes: Processes, folder: Path
) -> None:
    toolchain = REAL[name]
    missing = [one for one in toolchain.needs if is_missing(one)]
    if missing or level not in walls:
        pytest.skip(f"no {', '.join(missing) or level} here")
    if toolchain.not_as_root and os.geteuid() == 0:
        pytest.skip("not for root")
    try_it(processes, walls[level], level, toolchain, folder)
