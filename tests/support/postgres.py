"""A PostgreSQL server of the tests: its own folder, a Unix socket, an ordinary user."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from state_store.postgres.driver import driver

LOCKED = "locked"  # the user who needs a password
_ALWAYS = "-c max_connections=200 -c listen_addresses="
FAST = "-c fsync=off -c full_page_writes=off"
DURABLE = "-c fsync=on"


@dataclass(frozen=True)
class Server:
    """A running server. `url` has its database `postgres`."""

    folder: Path
    programs: Path
    user: str
    settings: str = FAST

    @property
    def url(self) -> str:
        return f"postgresql:///postgres?host={self.folder}&user={self.user}"

    def new_schema(self) -> str:
        """A name that no other test has."""
        return f"t_{secrets.token_hex(6)}"

    def ask(self, *statements: str) -> Any:
        """Run statements as the owner of everything; the rows of the last."""
        with driver().connect(self.url, autocommit=True) as connection:
            for one in statements:
                cursor = connection.execute(one)
            return cursor.fetchall() if cursor.description else None

    def start(self) -> None:
        self._control(
            "-w",
            "-o",
            f"{_ALWAYS} {self.settings} -k {self.folder}",
            "-l",
            f"{self.folder}/log",
            "start",
        )

    def stop(self, mode: str = "immediate") -> None:
        self._control("-w", "-m", mode, "stop")

    def _control(self, *words: str) -> None:
        pg_ctl = str(self.programs / "pg_ctl")
        _run([pg_ctl, "-D", str(self.folder / "data"), *words], self.user)


def missing() -> str:
    """The reason why no server can be started here; "" if one can."""
    if importlib.util.find_spec("psycopg") is None:
        return "psycopg is not installed"
    if _programs() is None:
        return "PostgreSQL is not installed"
    return ""


@contextmanager
def running(settings: str = FAST) -> Iterator[Server]:
    import pwd  # noqa: PLC0415 - all tests import this module, also on systems without it

    programs = _programs()
    assert programs is not None
    user = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    with tempfile.TemporaryDirectory(prefix="pg-", dir="/tmp") as folder:  # a short socket path
        if os.getuid() == 0:
            shutil.chown(folder, user)
        server = Server(Path(folder), programs, user, settings)
        made = [str(programs / "initdb"), "-D", f"{folder}/data", "-A", "trust", "-N", "-E", "UTF8"]
        _run([*made, "--locale=C.UTF-8", "-U", user], user)
        rules = Path(folder) / "data" / "pg_hba.conf"
        locked = f"local all {LOCKED} scram-sha-256\n"
        rules.write_text(locked + rules.read_text(encoding="utf-8"), encoding="utf-8")
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _programs() -> Path | None:
    """The folder with the server's programs, the newest first."""
    if found := shutil.which("pg_ctl"):
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/pg_ctl")
    newest = sorted(versions, key=lambda path: int(path.parts[-3]))
    return newest[-1].parent if newest else None


def _run(words: list[str], user: str) -> None:
    """Run a program as an ordinary user, which the server insists on."""
    if os.getuid() == 0:
        import pwd  # noqa: PLC0415 - as above

        found = pwd.getpwnam(user)
        ids = (f"--reuid={found.pw_uid}", f"--regid={found.pw_gid}", "--clear-groups")
        words = ["setpriv", *ids, "--", *words]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", check=False, timeout=120)
    assert done.returncode == 0, done.stderr or done.stdout
