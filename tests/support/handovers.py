"""Machines that share one item, one database and one remote, to hand its work over."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import psycopg

from state_store.sql.addresses import Address, keep_rows
from tests.support.killing import RUN_LIMIT_S, Yard
from tests.support.postgres import Server
from tests.support.processes import eventually
from tests.support.programs import ROOT, Ran, run_here

SLUG = "a"
UNSHIPPED = "refs/tidegate/unshipped"
ONCE = {SLUG.upper(): 1}


class Machines:
    """Machines with one item, one database and one remote. Good work is tested at `go` only."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.server, self.folder = server, folder
        self.schema = server.new_schema()
        self.made: list[Yard] = []
        found = importlib.util.find_spec("psycopg")
        assert found
        self.packages = str(Path(found.origin or "").parents[1])

    def make(self, name: str, more: str = "") -> Yard:
        rows = f'[state]\nurl = "{self.server.url}"\nschema = "{self.schema}"\n{more}'
        yard = Yard(self.folder / name, slugs=(SLUG,), config=rows)
        yard.environ["PYTHONPATH"] = self.packages
        if self.made:
            yard.remote = self.made[0].remote
            yard.repo.git("remote", "set-url", "origin", str(yard.remote.path))
            yard.before = yard._checkout()
        self.made.append(yard)
        wait = f"until [ -e {self.folder}/go ]; do sleep 0.05; done; echo >> {self.folder}/tested"
        test = f"{{ ! grep -qx good {SLUG}.txt || {{ {wait}; }}; }} && grep -qx good {SLUG}.txt"
        yard.track(yard.item(SLUG, testCmd=test))
        keep_rows(yard.state, Address(self.server.url, self.schema))
        return yard

    def rows(self, asked: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.server.url) as connection:
            connection.execute(f'SET search_path TO "{self.schema}"'.encode())
            return connection.execute(asked.encode()).fetchall()

    def change(self, asked: str) -> None:
        with psycopg.connect(self.server.url) as connection:
            connection.execute(f'SET search_path TO "{self.schema}"'.encode())
            connection.execute(asked.encode())

    def asked(self, yard: Yard, program: str, *words: str) -> Ran:
        """A program of Tidegate on a machine."""
        rows = {"TIDEGATE_STATE_URL": self.server.url, "TIDEGATE_STATE_SCHEMA": self.schema}
        where = ("--state-dir", str(yard.state))
        env = {**yard.environ, **rows}
        return run_here(ROOT / program, *words, *where, cwd=yard.repo.path, env=env)

    def go(self) -> None:
        (self.folder / "go").touch()

    def tested(self) -> int:
        """How often good work was tested; every machine has the item of the first."""
        log = self.folder / "tested"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def is_placed(self) -> bool:
        there = self.rows("SELECT to_regclass('unshipped')")[0][0] is not None
        return there and bool(self.rows("SELECT 1 FROM unshipped WHERE tree <> ''"))

    def killed_when_placed(self, yard: Yard, fail: str) -> str:
        """The work of a run that is killed at a point after other machines can go on with it."""
        with yard.running(fail) as program:
            assert eventually(lambda: self.is_placed() or program.poll() is not None, RUN_LIMIT_S)
            self.go()
            err = program.communicate(timeout=RUN_LIMIT_S)[1]
        assert program.returncode < 0, err
        return str(err)


def shipped(yard: Yard) -> dict[str, int]:
    """How many commits each item has on the remote."""
    return {name: len(several) for name, several in yard.commits().items()}


def names(yard: Yard) -> list[str]:
    """The refs of unshipped work on the remote."""
    return yard.remote.git("for-each-ref", "--format=%(refname)", UNSHIPPED).split()
