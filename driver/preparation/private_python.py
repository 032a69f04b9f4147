"""Private Python environments, so that a set-up never installs into the user's.

An environment lies over the user's Python: everything installed there can be imported, and its
scripts run with the private interpreter. What `pip install` adds, also with `-e`, goes into the
private environment and comes first. The user's environment is only read.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from driver.execution.processes import capture
from driver.filesystem.safe_file_access import regular_bytes
from driver.filesystem.temporary import scratch_folder
from driver.test_command.invocations import Command, programs
from driver.test_command.shell_parser import Simple
from state_store.documents.strict_json import parse_foreign
from state_store.values.lazy_dataclass import dataclass

_PROBE = """\
import json, site, sys, sysconfig
places = {"base": "", "platbase": ""}
print(json.dumps({
    "prefix": sys.prefix,
    "is_private": sys.prefix != sys.base_prefix,
    "program": getattr(sys, "_base_executable", None) or sys.executable,
    "version": sys.version.split()[0],
    "library": sysconfig.get_path("purelib", "posix_prefix", places),
    "packages": site.getsitepackages(),
    "scripts": sysconfig.get_path("scripts"),
    "user": site.getusersitepackages(),
}))
"""
_CHECK = "import json, sys; print(json.dumps([sys.prefix, sys.path]))"
_PROBE_S = 30.0
_NAMES = ("python3", "python")
# They install for other languages, or nothing.
_OTHERS = frozenset(
    """
    npm npx pnpm yarn bun corepack node deno cargo rustup go mvn mvnw gradle gradlew bundle gem ruby
    composer php dotnet swift mix git cp mv ln mkdir touch echo cat true test [ cd rm sed grep
    """.split()  # noqa: SIM905 - a list of names is longer
)
_MAX_SCRIPT_BYTES = 1 << 18
_LONGEST_LINE = 120  # of `#!`; some systems cut longer lines
_STARTER = re.compile(
    rb"\A#!(?P<first>[^\s]+)[^\n]*\n(?:'''exec' \"?(?P<inner>/[^\"\s]+)[^\n]*\n)?"
)


def may_install_python(commands: Sequence[Command]) -> bool:
    """False if no command can install Python packages, by the names of its programs."""
    called = [programs(command) for command in commands]
    is_unclear = not all(called)
    return is_unclear or any(Simple(words).name not in _OTHERS for one in called for words in one)


@dataclass(frozen=True, slots=True)
class _Script:
    """A script of the user's environment without the line that names its interpreter."""

    name: str
    mode: int
    body: bytes


class PrivatePython:
    """Makes environments over the first Python on the PATH of `environ`, the variables of set-ups
    and tests. It is looked up in the folder `top`."""

    def __init__(self, environ: Mapping[str, str], top: Path) -> None:
        self._environ, self._top = environ, top
        self._lock = threading.Lock()

    def make(self, folder: Path) -> dict[str, str]:
        """Make an environment in `folder`; returns the variables that select it. They are empty if
        there is no Python, or none that can be shared."""
        with self._lock:  # one test of it is enough
            is_usable = self._is_usable
        if not is_usable:
            return {}
        self._write(folder)
        path = os.pathsep.join(filter(None, (f"{folder}/bin", self._environ.get("PATH", ""))))
        return {"PATH": path, "VIRTUAL_ENV": str(folder), "PYTHONUSERBASE": f"{folder}/user"}

    def _write(self, folder: Path) -> None:
        found = self._found
        library = Path(f"{folder}/{found['library']}")
        for new in (folder / "bin", library):
            new.mkdir(parents=True)
        program, names = found["program"], ("python", "python3", f"python{self._short}")
        for name in names:
            (folder / "bin" / name).symlink_to(program)
        shown = str(self._shows_system).lower()
        (folder / "pyvenv.cfg").write_text(
            f"home = {Path(program).parent}\n"
            f"include-system-site-packages = {shown}\nversion = {found['version']}\n"
        )
        # The name sorts last, so that what is installed here comes before what it lies over.
        lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in self._below)
        (library / "~below.pth").write_text(lines)
        for script in self._scripts:
            path = folder / "bin" / script.name
            path.write_bytes(_starter(f"{folder}/bin/python") + script.body)
            path.chmod(script.mode)

    @property
    def _short(self) -> str:
        return ".".join(self._found["version"].split(".")[:2])

    @cached_property
    def _below(self) -> list[str]:
        """The folders of packages that the environment adds to its own."""
        found = self._found
        packages = found["packages"] if found["is_private"] else []
        user = [found["user"]] if self._shows_system else []
        return [folder for folder in (*packages, *user) if Path(folder).is_dir()]

    @cached_property
    def _shows_system(self) -> bool:
        if not self._found["is_private"]:
            return True
        try:
            text = regular_bytes(Path(self._found["prefix"], "pyvenv.cfg")).decode()
        except (OSError, UnicodeDecodeError):
            return False
        return bool(re.search(r"(?im)^include-system-site-packages\s*=\s*true\s*$", text))

    @cached_property
    def _scripts(self) -> list[_Script]:
        """The scripts that the user's Python runs."""
        found = list[_Script]()
        folder = Path(self._found["scripts"])
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            try:
                seen = path.stat()
                content = regular_bytes(path, _MAX_SCRIPT_BYTES)
            except OSError:
                continue
            started = _STARTER.match(content)
            if started and self._is_ours(started["inner"] or started["first"]):
                found.append(_Script(path.name, seen.st_mode & 0o777, content[started.end() :]))
        return found

    def _is_ours(self, interpreter: bytes) -> bool:
        """True for a Python in the folder of the scripts, also by another path to that folder."""
        path = Path(os.fsdecode(interpreter))
        own = Path(self._found["scripts"])
        same = path.parent == own or os.path.realpath(path.parent) == os.path.realpath(own)
        return same and path.name.startswith(("python", "pypy"))

    @cached_property
    def _found(self) -> Mapping[str, Any]:
        """Facts about the user's Python; empty if there is none."""
        path = self._environ.get("PATH", "")
        for folder in path.split(os.pathsep) if os.name == "posix" else ():
            for name in _NAMES:
                if (program := shutil.which(name, path=folder)) and Path(program).is_absolute():
                    found = self._asked(program, _PROBE)
                    return found if isinstance(found, dict) else {}
        return {}

    @cached_property
    def _is_usable(self) -> bool:
        """True if an environment sees everything that the user's Python sees."""
        if not self._found or "PYTHONHOME" in self._environ:
            return False
        with scratch_folder() as scratch:
            trial = scratch / "environment"
            self._write(trial)
            seen = self._asked(f"{trial}/bin/python", _CHECK)
            if not isinstance(seen, list):
                return False
            prefix, path = seen
            there = {os.path.realpath(folder) for folder in path}
            wanted = [*self._below, *self._found["packages"]]
            missing = {os.path.realpath(one) for one in wanted if Path(one).is_dir()} - there
            return os.path.realpath(prefix) == os.path.realpath(trial) and not missing

    def _asked(self, program: str, script: str) -> object:
        try:
            done = capture(
                (program, "-I", "-c", script),
                cwd=self._top,
                env=self._environ,
                timeout_s=_PROBE_S,
            )
            return parse_foreign(done.stdout) if done.ok else None
        except (OSError, ValueError):
            return None


def _starter(program: str) -> bytes:
    """The first lines of a script that `program` runs."""
    path = os.fsencode(program)
    if len(path) <= _LONGEST_LINE and not re.search(rb"\s", path):
        return b"#!" + path + b"\n"
    return b"#!/bin/sh\n'''exec' \"" + path + b'" "$0" "$@"\n\' \'\'\'\n'
