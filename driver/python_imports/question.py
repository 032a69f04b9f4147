"""The question to the interpreter of a test command: the test files that the command loads, and the
words that start the same interpreter. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping

from driver.runners import pytest, unittest
from driver.runners.runner import TAKES_VALUE, Call, CanaryInput, is_folder, positional
from driver.runners.table import runner_of
from driver.test_command.invocations import program_name
from driver.test_style.pytest_settings import config_of
from state_store.values.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ImportQuestion:
    """A question to the Python of a call: where do the imports of its `tests` come from?

    `words` start the same Python in place of the call; with `plugin` they start pytest, which loads
    `probe`. `first` are the folders that the call puts first on the import path. `absent`
    are test files that the call names and the tree lacks. `folders` are those of the named paths,
    in the spelling of the call; pytest reads its settings there. With `certain` the call loads all
    of `tests`.
    """

    words: tuple[str, ...]
    tests: tuple[str, ...]
    first: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    plugin: bool = False
    certain: bool = True


def question_of(
    call: Call, files: Collection[str], texts: Mapping[str, str]
) -> ImportQuestion | None:
    """The question for a call in a tree with these files and texts; None for other runners."""
    name = runner_of(call.words)
    if program_name(call.words) in _OWN_ENVIRONMENTS:
        return None
    if name == "pytest":
        return _of_pytest(call, files, texts)
    return _of_unittest(call, files) if name == "unittest" else None


# They make a Python environment for the checkout, which leads into the checkout.
_OWN_ENVIRONMENTS = ("uv", "poetry", "pdm", "hatch", "pipenv")
_LEAVES_SOME = ("ignore", "norecursedirs", "deselect", "python_files")


def _of_pytest(
    call: Call, files: Collection[str], texts: Mapping[str, str]
) -> ImportQuestion | None:
    """The question for a call of pytest, without the paths that it names."""
    options = pytest.options_of(call.words)
    if any(word.partition("=")[0] in pytest.SELECTS for word in options):
        return None
    named = positional(options, TAKES_VALUE)
    paths = {word: call.in_tree(word.partition("::")[0]) for word in named}
    absent = {path for path in paths.values() if path.endswith(".py") and path not in files}
    config = config_of(call.folder, texts)
    there = [word for word in named if paths[word] not in absent]
    found = (
        pytest.tests_run(there, config, CanaryInput(call, files, (), texts, ""))
        if there or not named
        else []
    )
    single = {*found} <= {*paths.values()}
    kept = [word for word in options if word not in paths]
    everything = " ".join((config, *kept, *(texts[p] for p in texts if p.endswith("conftest.py"))))
    return ImportQuestion(
        (*call.words[: len(call.words) - len(options)], *kept),
        tuple(found),
        absent=tuple(sorted(absent)),
        folders=tuple(sorted({_folder_of(word, paths[word], call, files) for word in there})),
        plugin=True,
        certain=single or not any(word in everything for word in _LEAVES_SOME),
    )


def _folder_of(word: str, path: str, call: Call, files: Collection[str]) -> str:
    """The folder of an argument: of its file, or the argument itself if it names a folder."""
    return call.below(posixpath.dirname(path) or ".") if path in files else word


_TOP = ("-t", "--top-level-directory")


def _of_unittest(call: Call, files: Collection[str]) -> ImportQuestion | None:
    """The question for a call of `python -m unittest`."""
    if "-m" not in call.words[1:]:
        return None
    options, words = unittest.options_of(call), call.words[: call.words.index("-m")]
    if discovery := unittest.discovery_of(options):
        folder = call.in_tree(discovery.start)
        if folder and not is_folder(folder, files):
            return None
        first = unittest.option_value(options, *_TOP) or discovery.start
        found = [
            file for file in files if unittest.is_loaded(file, folder, discovery.pattern, files)
        ]
        return ImportQuestion(words, tuple(sorted(found)), first=(call.in_tree(first),))
    modules = {word: unittest.module_file(word, call, files) for word in unittest.named_in(options)}
    absent = (_absent(word, call, files) for word, path in modules.items() if not path)
    return ImportQuestion(
        words, tuple(filter(None, modules.values())), absent=tuple(filter(None, absent))
    )


def _absent(word: str, call: Call, files: Collection[str]) -> str:
    """The file that an argument names without success; "" if it may name an installed module."""
    if word.endswith(".py"):
        return call.in_tree(word)
    parts = word.split(".")
    for end in range(len(parts) - 1, 0, -1):
        if is_folder(folder := call.in_tree("/".join(parts[:end])), files):
            return f"{folder}/{parts[end]}.py"
    return ""
