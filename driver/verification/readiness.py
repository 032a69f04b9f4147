"""Asks before an item's agent is paid if the item's test command can test the work at all. The
answers come from the base: is the program there, are the test files there, and does Python import
the modules of the tested tree? Items with the same command share one question."""

from __future__ import annotations

import os
import re
import shutil
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

from driver.domain.ownership import covers
from driver.execution.process_marks import new_mark
from driver.execution.worker_pool import BackgroundTask
from driver.python_imports.rules import of_absent
from driver.run_state.context import ItemRun
from driver.test_command.build_scripts import in_folder
from driver.test_command.invocations import innermost, programs
from driver.verification.import_question import Answer, Asked, ask, asked_by, objection
from driver.verification.test_run import test_environment
from driver.walls.wall import Role
from driver.workspace.clone_context import CloneContext
from state_store.documents.errors import TidegateError

_FOLDER = "imports"
_PROGRAM = re.compile(r"[\w./+-]+")
_OF_SHELLS = (
    ". : [ alias bg bind break builtin caller case cd command compgen complete compopt continue "
    "declare dirs disown echo enable eval exec exit export false fc fg for function getopts hash "
    "help history if jobs kill let local logout mapfile popd printf pushd pwd read readarray "
    "readonly return select set shift shopt source suspend test time times trap true type typeset "
    "ulimit umask unalias unset until wait while"
)
_BUILT_IN = frozenset(_OF_SHELLS.split())


class WaveReadiness:
    """The questions of one wave. Safe to use from threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[str, Asked] | None = None
        self._running: dict[tuple[object, ...], BackgroundTask[Answer]] = {}

    def begin(self, item: ItemRun) -> None:
        """Start to ask for the item in the background."""
        context = item.repository
        if context is None:
            return
        with self._lock:
            if self._asked is None:
                self._asked = {
                    one.slug: asked for one in item.wave.items if (asked := _asked_by(one))
                }
            asked = self._asked.get(item.slug)
            if asked is None or asked.key in self._running:
                return
            shared = [one.question for one in self._asked.values() if one.key == asked.key]
            tests = sorted({path for one in shared for path in one.tests})
            folders = sorted({path for one in shared for path in one.folders})
            question = replace(asked.question, tests=tuple(tests), folders=tuple(folders))
            whole = replace(asked, question=question)
            self._running[asked.key] = BackgroundTask(
                lambda: _answer(item, context, whole) if tests else Answer()
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
        if reason:
            return reason
        answer = self._running[asked.key].result()
        return objection(answer, asked.question, context.paths, item.planned.owned)


def _asked_by(item: ItemRun) -> Asked | None:
    """The item's question; items of other repositories have other questions."""
    context = item.repository
    if context is None:
        return None
    asked = asked_by(item.spec.test_command, item.work_dir, context.paths, context.text)
    return asked and replace(asked, key=(item.planned.home.key, *asked.key))


def _missing_program(item: ItemRun) -> str:
    """The sentence about a program that the machine does not have; "" if it may have it. A program
    may be made by the set-up, and one with a path by the item."""
    command, workspace = item.spec.test_command, item.wave.settings.workspace
    words = tuple(command.split()) if isinstance(command, str) else command
    if isinstance(command, str):
        # A longer text may set the PATH, define the program, or do without it.
        plain = programs(command) == (words,) and _PROGRAM.fullmatch(words[0])
        if not plain or words[0] in _BUILT_IN:
            return ""
    if innermost(words) != words or workspace.setup:
        return ""
    program = words[0]
    if "/" in program or os.sep in program:
        path = in_folder(item.work_dir, program)
        made = workspace.copy or covers(item.planned.owned, path)
        if made or path in item.context.paths or Path(program).is_absolute():
            return ""
        why, remedy = f"{path} is not in the base", "commit it, or list it in ownsFiles"
    else:
        if shutil.which(program, path=test_environment(item.wave.settings).get("PATH")):
            return ""
        why, remedy = f"{program} is not on the PATH of tests", "install it"
    return f"the test could not be run: {why}: {remedy}, or correct the test command"


def _answer(item: ItemRun, context: CloneContext, asked: Asked) -> Answer:
    """Ask the interpreter, in a test checkout of the base. Without an answer no item is stopped."""
    try:
        with context.test_checkout(context.base_tree) as checkout:
            folder = item.scratch / _FOLDER
            folder.mkdir(parents=True, exist_ok=True)
            own = {**test_environment(item.wave.settings), **checkout.environment}
            environment = {**own, **new_mark(item.wave.key)}
            wave, places = item.wave, replace(context.places(checkout.path), written=(folder,))
            inside = wave.walls.around(Role.TEST, places)
            run = partial(inside.run, wave.processes)
            return ask(asked, checkout.path, context.paths, folder, environment, run)
    except (TidegateError, OSError, ValueError, KeyError):
        return Answer()
