"""Machines of the tests: own namespaces, clock, home, clone and state folder; only a database and a
remote are shared, both over TCP through the machine's gateway."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from state_store.sql.addresses import Address, keep_rows
from tests.support import gateway
from tests.support.interpreter import PYTHON
from tests.support.killing import Yard
from tests.support.postgres import Server
from tests.support.processes import MARKER, carrying
from tests.support.programs import Ran

SHIM = Path(__file__).with_name("shifted_clock.c")
RUN_LIMIT_S = 900.0
_SPACES = ("-n", "-u", "-m")

# An agent of 1,000 tokens. Each third item is bad at first, and has to be repaired.
AGENT = """\
echo "$TIDEGATE_ITEM" >> {folder}/dispatched
{slow}
case $TIDEGATE_ITEM$TIDEGATE_ATTEMPT in
*[0369]-1) echo bad > "$TIDEGATE_ITEM.txt" ;;
*) echo good > "$TIDEGATE_ITEM.txt" ;;
esac
echo '{{"input_tokens": 900, "output_tokens": 100, "cost_usd": 0.01}}' > "$TIDEGATE_USAGE_FILE"
""".replace("$TIDEGATE_ITEM$TIDEGATE_ATTEMPT", "$TIDEGATE_ITEM-$TIDEGATE_ATTEMPT")


class Machine(Yard):
    """A machine; `run_with` begins its scheduler as cron does."""

    def __init__(
        self,
        folder: Path,
        slugs: Sequence[str],
        config: str,
        address: Address,
        first: Machine | None,
    ) -> None:
        super().__init__(folder, slugs=slugs, config=config, agent=AGENT)
        self.address = address
        self.remote = first.remote if first else self.remote
        self.enter: tuple[str, ...] = ()
        self.program: subprocess.Popen[str] | None = None
        self._switch = threading.Lock()
        found = importlib.util.find_spec("psycopg")
        assert found
        assert found.origin
        self.environ["PYTHONPATH"] = str(Path(found.origin).parents[1])
        if first is not None:
            self.tracker.unlink()  # the store's backlog is that of all

    def item(self, slug: str, **more: object) -> dict[str, object]:
        return super().item(slug, testCmd=f"grep -qx good {slug}.txt", **more)

    def connect(self, ports: tuple[int, int], server: Server) -> None:
        """Lead the clone and the settings through the gateway."""
        database, remote = ports
        self.repo.git("remote", "set-url", "origin", f"git://127.0.0.1:{remote}/remote.git")
        self.before = self._checkout()
        url = f"postgresql://{server.user}@127.0.0.1:{database}/postgres?sslmode=disable"
        self.environ["TIDEGATE_STATE_URL"] = url
        self.environ["TIDEGATE_STATE_SCHEMA"] = self.address.schema
        keep_rows(self.state, self.address)  # for this process, which is outside

    def work(self, *flags: str) -> Ran:
        """The scheduler to its end, unless `kill` is sooner."""
        with self._switch:
            self.program = subprocess.Popen(
                [*self.enter, *self.argv(), *flags],
                cwd=self.folder,
                env={**self.environ, MARKER: self.marked.marker},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        with self.program as program:
            out, err = program.communicate(timeout=RUN_LIMIT_S)
        return Ran(program.returncode, out, err)

    def kill(self) -> bool:
        """Kill the scheduler with everything below it; False if it was not at work."""
        with self._switch:
            program = self.program
            if program is None or program.poll() is not None:
                return False
            below = _below(program.pid)
            program.kill()
            for pid in {*below, *carrying(f"{MARKER}={self.marked.marker}")}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return True


def _below(top: int) -> list[int]:
    """The process and all that it has started, and these in turn; needs /proc."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
    found = [top]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


class Between:
    """The gateway of a machine, as a process that keeps the machine's namespaces."""

    def __init__(self, machine: Machine, server: Server, seed: str, number: int) -> None:
        boot = machine.folder / "boot_id"
        boot.write_text(f"{uuid.uuid4()}\n")
        apart = _apart()
        name = f"machine{number}" if apart else ""
        place = (f"{server.folder}/.s.PGSQL.5432", str(machine.remote.path.parent), seed, name)
        self._program = subprocess.Popen(
            [*apart, *PYTHON, gateway.__file__, *place, str(boot)],
            env=dict(machine.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._program.stdout
        database, remote = map(int, self._program.stdout.readline().split())
        if apart:
            user = () if os.getuid() == 0 else ("--preserve-credentials", "-U")
            machine.enter = ("nsenter", *user, *_SPACES, "-t", str(self._program.pid))
        machine.connect((database, remote), server)

    def cut(self, kind: str, after: int) -> None:
        assert self._program.stdin
        self._program.stdin.write(f"cut {kind} {after}\n")
        self._program.stdin.flush()

    def end(self) -> int:
        """Stop it; returns the number of connections that it has cut."""
        try:
            told, _ = self._program.communicate(timeout=60)
        finally:
            self._program.kill()
            self._program.wait()
        return int(told)


@functools.cache
def _apart() -> tuple[str, ...]:
    """The words that start a program in namespaces of its own; none where there can be none."""
    if not (shutil.which("unshare") and shutil.which("nsenter")):
        return ()
    user = () if os.getuid() == 0 else ("-c", "--keep-caps")
    words = ("unshare", *user, *_SPACES, "--")
    trial = f"import sys; sys.path.insert(0, {str(SHIM.parent)!r}); import gateway as g\n"
    trial += "g.settle('trial', '/dev/null')"
    done = subprocess.run([*words, *PYTHON, "-c", trial], capture_output=True, check=False)
    return words if done.returncode == 0 else ()


def surroundings() -> str:
    """What the machines have of their own here, to be printed."""
    return "own networks, host names and boots" if _apart() else "plain processes, own ports"


def shifted_clock(folder: Path) -> Path | None:
    """The library that shifts clocks; None if it cannot be made here."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    made = folder / "shifted_clock.so"
    words = [compiler, "-O1", "-shared", "-fPIC", "-o", str(made), str(SHIM), "-ldl"]
    done = subprocess.run(words, capture_output=True, check=False)
    return made if done.returncode == 0 else None


@contextmanager
def several(
    folder: Path, server: Server, count: int, slugs: Sequence[str], config: str, seed: int
) -> Iterator[list[tuple[Machine, Between]]]:
    """Machines with one backlog; the first has the tracker file and the remote of all."""
    address = Address(server.url, server.new_schema())
    made: list[tuple[Machine, Between]] = []
    try:
        for number in range(count):
            first = made[0][0] if made else None
            machine = Machine(folder / f"machine{number}", slugs, config, address, first)
            made.append((machine, Between(machine, server, f"{seed} {number}", number)))
        yield made
    finally:
        for machine, between in made:
            machine.kill()
            with suppress(ValueError):
                between.end()
