"""Asks the interpreter of a test command where it imports modules from. It is asked in a checkout
of the base."""

from __future__ import annotations

import json
import os
import posixpath
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import resources
from pathlib import Path

from driver.domain.ownership import OwnedPath
from driver.execution.command import Command, Finished
from driver.filesystem.safe_file_access import regular_bytes, replace_plain
from driver.policy.installed_modules import may_name_dependencies
from driver.python_imports import probe
from driver.python_imports.question import ImportQuestion, question_of
from driver.python_imports.rules import Imports, of_elsewhere, of_missing
from driver.runners.table import find_call, make_call
from driver.test_command.build_scripts import MAKEFILES, in_folder
from driver.verification.lazy_texts import LazyTexts
from state_store.documents.strict_json import parse_foreign
from state_store.values.lazy_dataclass import dataclass, replace

_PLUGIN = "probe_of_imports"  # a module of the repository could have a plainer name
_TIMEOUT_S = 20.0  # an agent waits for the answer
_SETS_PATHS = ("PATH", "activate", "export")
_MAX_ANSWER = 2**24
_CODE = "exec(compile(open({path!r}, encoding='utf-8').read(), {path!r}, 'exec')); main()"
_NO_MODULE = "No module named "
_SETTINGS = (".toml", ".ini", ".cfg", "conftest.py")  # of Python runners


@dataclass(frozen=True, slots=True)
class Asked:
    """An item's question, and the key of the question that it shares. It is asked in `folder`, and
    the text `prefix` goes before its words."""

    question: ImportQuestion
    folder: str
    prefix: str
    key: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The interpreter's answer; None with a `problem` if the program could not be started."""

    imports: Imports | None = None
    problem: str = ""


def asked_by(
    command: str | tuple[str, ...],
    work_dir: str,
    paths: Collection[str],
    text: Callable[[str], str],
) -> Asked | None:
    """The question for a command in `work_dir`; None if it calls no Python runner. `paths` are the
    files of the base, `text` returns the text of one."""
    folder = "" if work_dir == "." else work_dir
    texts = LazyTexts(paths, text, lambda path: path.endswith(_SETTINGS))
    call = find_call(command, folder)
    by_build = call is None and make_call(command, folder, lambda path: texts.get(path, ""))
    call = call or by_build or None
    question = question_of(call, paths, texts) if call else None
    if call is None or question is None:
        return None
    before: tuple[str, ...] = ()
    prefix, tail = "", " ".join(call.words)
    if by_build:
        # The lines run without make, which could set the import path before.
        made = "".join(text(in_folder(work_dir, name)) for name in MAKEFILES)
        if "$" in tail or any(word in made for word in _SETS_PATHS):
            return None
        question, folder = replace(question, certain=False), call.folder
    elif not call.extendable:
        return None
    elif not isinstance(command, str):
        before = command[: -len(call.words)]
    elif command.rstrip().endswith(tail):
        prefix = command.rstrip().removesuffix(tail)
    else:
        return None
    words = (*before, *question.words)
    key = (folder, prefix, words, question.first, question.plugin)
    question = replace(question, words=words)
    return Asked(question, folder, prefix, (*key, question.certain, bool(question.folders)))


def objection(
    answer: Answer, question: ImportQuestion, files: Collection[str], owned: Sequence[OwnedPath]
) -> str:
    """The reason why the tests of `question` cannot test an item's work; "" for none."""
    if answer.imports is None:
        return answer.problem
    found = of_elsewhere(answer.imports, question.tests, files, owned)
    if found or not question.certain:
        return found
    adds = any(not one.is_dir and may_name_dependencies(one.path) for one in owned)
    return of_missing(answer.imports, question.tests, files, owned, may_add_dependencies=adds)


def ask(
    asked: Asked,
    top: Path,
    paths: Collection[str],
    folder: Path,
    environment: Mapping[str, str],
    run: Callable[[Command], Finished],
) -> Answer:
    """The interpreter's answer in the checkout `top`, whose files are `paths`. `folder` is an
    existing folder for the question, `run` runs a command there. Raises OSError, ValueError and
    KeyError."""
    question = asked.question
    script = folder / f"{_PLUGIN}.py"
    source = resources.files(probe.__package__ or "") / "probe.py"
    replace_plain(folder.parent, f"{folder.name}/{script.name}", source.read_bytes())
    given = folder / "question.json"
    whole = json.dumps(_given(paths, top, question)).encode()
    replace_plain(folder.parent, f"{folder.name}/{given.name}", whole)
    environment = {**environment, probe.INPUT: str(given)}
    words = (*question.words, *question.folders)
    if question.plugin:
        more = {"PYTEST_ADDOPTS": f"-p {script.stem}", "PYTHONPATH": str(folder)}
        for name, sep in (("PYTEST_ADDOPTS", " "), ("PYTHONPATH", os.pathsep)):
            environment[name] = sep.join(filter(None, (environment.get(name), more[name])))
    else:
        words = (*words, "-c", _CODE.format(path=str(script)))
    start = f"{asked.prefix}{shlex.join(words)}" if asked.prefix else words
    done = run(Command(start, top / asked.folder, environment, _TIMEOUT_S))
    answer = given.with_name(f"{given.name}.answer")
    if not answer.is_file():
        return Answer(problem=_why_not(question, done))
    found = parse_foreign(regular_bytes(answer, _MAX_ANSWER).decode("utf-8"))
    return Answer(
        Imports(
            str(found["python"]),
            tuple((str(a), str(b), str(c)) for a, b, c in found["elsewhere"]),
            tuple((str(a), str(b)) for a, b in found["missing"]),
        )
    )


def _given(paths: Collection[str], top: Path, question: ImportQuestion) -> object:
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
