"""Asks before an item's agent is paid if the item's test command can test the work at all. The
answers come from the base: is the program there, are the test files there, and does Python import
the modules of the tested tree? Items with the same command share one question."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shlex
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path

from driver.domain.ownership import covers
from driver.execution.command import Command, Finished
from driver.execution.process_marks import new_mark
from driver.execution.worker_pool import BackgroundTask
from driver.python_imports import probe
from driver.python_imports.question import ImportQuestion, question_of
from driver.python_imports.rules import Imports, of_absent, of_elsewhere, of_missing
from driver.run_state.context import ItemRun
from driver.runners.table import find_call, make_call
from driver.test_command.build_scripts import MAKEFILES, in_folder
from driver.test_command.invocations import innermost, programs
from driver.verification.test_run import test_environment
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import TidegateError

_FOLDER = "imports"  # in the run folder
_PLUGIN = "probe_of_imports"  # a module of the repository could have a plainer name
_TIMEOUT_S = 60.0
_SETS_PATHS = ("PATH", "activate", "export")
_CODE = "exec(compile(open({path!r}, encoding='utf-8').read(), {path!r}, 'exec')); main()"
_PROGRAM = re.compile(r"[\w./+-]+")
_OF_SHELLS = (
    ". : [ alias bg bind break builtin caller case cd command compgen complete compopt continue "
    "declare dirs disown echo enable eval exec exit export false fc fg for function getopts hash "
    "help history if jobs kill let local logout mapfile popd printf pushd pwd read readarray "
    "readonly return select set shift shopt source suspend test time times trap true type typeset "
    "ulimit umask unalias unset until wait while"
)
_BUILT_IN = frozenset(_OF_SHELLS.split())
_NO_MODULE = "No module named "


@dataclass(frozen=True, slots=True)
class _Asked:
    """An item's question, and the key of the question that it shares. It is asked in `folder`, and
    the text `prefix` goes before its words."""

    question: ImportQuestion
    folder: str
    prefix: str
    key: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    """The interpreter's answer; None with a `problem` if the program could not be started."""

    imports: Imports | None = None
    problem: str = ""


class WaveReadiness:
    """The questions of one wave. Safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[str, _Asked] | None = None
        self._running: dict[tuple[object, ...], BackgroundTask[_Answer]] = {}

    def begin(self, item: ItemRun) -> None:
        """Start to ask for the item in the background."""
        context = item.repository
        if context is None:
            return
        with self._lock:
            if self._asked is None:
                self._asked = {one.slug: asked for one in item.wave.items if (asked := _ask(one))}
            asked = self._asked.get(item.slug)
            if asked is None or asked.key in self._running:
                return
            shared = [one.question for one in self._asked.values() if one.key == asked.key]
            tests = sorted({path for one in shared for path in one.tests})
            whole = replace(asked, question=replace(asked.question, tests=tuple(tests)))
            number = len(self._running)
            self._running[asked.key] = BackgroundTask(
                lambda: _answer(item, context, whole, number) if tests else _Answer()
            )

    def of(self, item: ItemRun) -> str:
        """The reason why the item's test cannot test its work; "" for none. Waits for the
        answer."""
        context = item.repository
        if context is None:
            return ""
        reason, asked = _missing_program(item), (self._asked or {}).get(item.slug)
        if reason or asked is None:
            return reason
        absent, top = asked.question.absent, context.repository.top
        untracked = [path for path in absent if (top / path).is_file()]
        reason = of_absent(absent, item.planned.owned, untracked)
        return reason or _objection(item, asked.question, self._running[asked.key].result())


def _objection(item: ItemRun, question: ImportQuestion, answer: _Answer) -> str:
    if answer.imports is None:
        return answer.problem
    files, owned = item.context.paths, item.planned.owned
    found = of_elsewhere(answer.imports, question.tests, files, owned)
    if found or not question.certain:
        return found
    return of_missing(answer.imports, question.tests, files, owned)


class _Texts(Mapping[str, str]):
    """The texts of the settings of Python runners on the base, read on demand."""

    def __init__(self, context: CloneContext) -> None:
        self._context = context

    @cached_property
    def _names(self) -> list[str]:
        wanted = (".toml", ".ini", ".cfg", "conftest.py")
        return [path for path in self._context.paths if path.endswith(wanted)]

    def __getitem__(self, path: str) -> str:
        if path not in self._context.paths:
            raise KeyError(path)
        return self._context.text(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _ask(item: ItemRun) -> _Asked | None:
    """The question for an item; None if its command calls no Python runner."""
    context, command = item.repository, item.spec.test_command
    work_dir = "" if item.work_dir == "." else item.work_dir
    if context is None:
        return None
    texts = _Texts(context)
    call = find_call(command, work_dir)
    by_build = call is None and make_call(command, work_dir, texts)
    call = call or by_build or None
    question = question_of(call, context.paths, texts) if call else None
    if call is None or question is None:
        return None
    before: tuple[str, ...] = ()
    prefix, tail = "", " ".join(call.words)
    if by_build:
        # The lines run without make, which could set the import path before.
        made = "".join(context.text(in_folder(item.work_dir, name)) for name in MAKEFILES)
        if "$" in tail or any(word in made for word in _SETS_PATHS):
            return None
        question, work_dir = replace(question, certain=False), call.folder
    elif not call.extendable:
        return None
    elif not isinstance(command, str):
        before = command[: -len(call.words)]
    elif command.rstrip().endswith(tail):
        prefix = command.rstrip().removesuffix(tail)
    else:
        return None
    words = (*before, *question.words)
    key = (item.planned.home.key, work_dir, prefix, words, question.first, question.plugin)
    question = replace(question, words=words)
    return _Asked(question, work_dir, prefix, (*key, question.certain))


def _missing_program(item: ItemRun) -> str:
    """The sentence about a program that the machine does not have; "" if it may have it. A program
    with a path may be made by the set-up or by the item."""
    command, workspace = item.spec.test_command, item.wave.settings.workspace
    words = tuple(command.split()) if isinstance(command, str) else command
    if isinstance(command, str):
        # A longer text may set the PATH, define the program, or do without it.
        plain = programs(command) == (words,) and _PROGRAM.fullmatch(words[0])
        if not plain or words[0] in _BUILT_IN:
            return ""
    if innermost(words) != words:
        return ""
    program = words[0]
    if "/" in program or os.sep in program:
        path = in_folder(item.work_dir, program)
        made = workspace.setup or workspace.copy or covers(item.planned.owned, path)
        if made or path in item.context.paths or Path(program).is_absolute():
            return ""
        why, remedy = f"{path} is not in the base", "commit it, or list it in ownsFiles"
    else:
        if shutil.which(program, path=test_environment(item.wave.settings).get("PATH")):
            return ""
        why, remedy = f"{program} is not on the PATH of tests", "install it"
    return f"the test could not be run: {why}: {remedy}, or correct the test command"


def _answer(item: ItemRun, context: CloneContext, asked: _Asked, number: int) -> _Answer:
    """Ask the interpreter, in a test checkout of the base. Without an answer no item is stopped."""
    try:
        with context.test_checkout(context.base_tree) as checkout:
            folder = item.wave.run_dir / _FOLDER / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            return _asked_in(item, checkout.path, asked, folder)
    except (TidegateError, OSError, ValueError, KeyError):
        return _Answer()


def _asked_in(item: ItemRun, top: Path, asked: _Asked, folder: Path) -> _Answer:
    wave, question = item.wave, asked.question
    script = folder / f"{_PLUGIN}.py"
    source = resources.files(probe.__package__ or "") / "probe.py"
    script.write_text(source.read_text("utf-8"), encoding="utf-8")
    given = folder / "question.json"
    given.write_text(json.dumps(_given(item.context.paths, top, question)), encoding="utf-8")
    environment = {**test_environment(wave.settings), probe.INPUT: str(given)}
    words = question.words
    if question.plugin:
        more = {"PYTEST_ADDOPTS": f"-p {script.stem}", "PYTHONPATH": str(folder)}
        for name, sep in (("PYTEST_ADDOPTS", " "), ("PYTHONPATH", os.pathsep)):
            environment[name] = sep.join(filter(None, (environment.get(name), more[name])))
    else:
        words = (*words, "-c", _CODE.format(path=str(script)))
    start = f"{asked.prefix}{shlex.join(words)}" if asked.prefix else words
    marked = {**environment, **new_mark(wave.key)}
    done = wave.processes.run(Command(start, top / asked.folder, marked, _TIMEOUT_S))
    answer = given.with_name(f"{given.name}.out")
    if not answer.is_file():
        return _Answer(problem=_why_not(question, done))
    found = json.loads(answer.read_text("utf-8"))
    return _Answer(
        Imports(
            str(found["python"]),
            tuple((str(a), str(b), str(c)) for a, b, c in found["elsewhere"]),
            tuple((str(a), str(b)) for a, b in found["missing"]),
        )
    )


def _given(paths: Sequence[str] | frozenset[str], top: Path, question: ImportQuestion) -> object:
    """The question as the interpreter reads it. `ours` are the first names of all modules."""
    modules = [path[: -len(".py")] for path in paths if path.endswith(".py")]
    conftests = [path for path in paths if posixpath.basename(path) == "conftest.py"]
    return {
        "top": str(top),
        "tests": list(question.tests),
        "first": list(question.first),
        "conftests": conftests,
        "ours": sorted({part for path in modules for part in path.split("/")}),
    }


def _why_not(question: ImportQuestion, done: Finished) -> str:
    """The sentence about a runner that the interpreter does not have."""
    last = done.stderr.strip().rpartition("\n")[2]
    if question.plugin and done.exit_code == 1 and last.endswith(f"{_NO_MODULE}pytest"):
        return f"{last}: install pytest there, or correct the test command"
    return ""
