"""The house plan: packages, their levels and their sizes, read from the imports.

docs/architecture.md holds the table of packages; the rules here read it.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("state_store", "tools", "driver")
MOST_MODULES = 15
MOST_LINES = 350
MOST_FILES_OF_DRIVER = 14
DOORS = {
    "subprocess": {"driver/execution/processes.py", "driver/execution/supervised.py"},
    "sqlite3": {"state_store/moving/sqlite_ends.py", "state_store/views/store_summary.py"}
    | {
        f"state_store/database/{name}.py"
        for name in (
            "connections",
            "errors",
            "integrity",
            "item_blocks",
            "kept_items",
            "publications",
            "schema",
            "transaction",
        )
    },
}


@functools.cache
def modules() -> list[Path]:
    return sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def by_name() -> dict[str, Path]:
    return {name_of(path): path for path in modules() if path.name != "__init__.py"}


def package_of(path: Path) -> str:
    return path.parent.relative_to(ROOT).as_posix() + "/"


@functools.cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def is_program(path: Path) -> bool:
    return 'if __name__ == "__main__":' in path.read_text(encoding="utf-8")


def is_door(path: Path) -> bool:
    """Returns True for a module that stands at an old name for callers of the source."""
    return "sys.modules[__name__] = " in path.read_text(encoding="utf-8")


def inner_modules() -> list[Path]:
    """The modules that are neither programs, nor doors, nor the top of `driver/`."""
    return [
        path
        for path in modules()
        if not (is_program(path) or is_door(path) or package_of(path) == "driver/")
    ]


@functools.cache
def levels() -> dict[str, int]:
    """The table of docs/architecture.md: package folder with a slash at its end -> level."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (`[^|]+) \|", text, re.MULTILINE)
    found = [
        (name, int(level)) for level, names in rows for name in re.findall(r"`([^`]+)`", names)
    ]
    assert len(found) == len(dict(found)), "a package stands twice in the table"
    return dict(found)


def imports_upwards(path: Path) -> list[str]:
    """The packages that `path` imports although they are not below its own."""
    own = package_of(path)
    used = {by_name()[name] for name in imports(path) & by_name().keys()}
    packages = {package_of(other) for other in used}
    table = levels()
    return sorted(
        package
        for package in packages - {own}
        if package not in table or table[package] >= table[own]
    )


def test_the_table_names_every_package_and_no_other() -> None:
    there = {package_of(path) for path in inner_modules()}
    assert set(levels()) == there


def test_imports_go_downwards_between_packages() -> None:
    found = {name_of(path): imports_upwards(path) for path in inner_modules()}
    assert {name: upwards for name, upwards in found.items() if upwards} == {}


@pytest.mark.parametrize("module", DOORS)
def test_each_side_effect_has_one_door(module: str) -> None:
    using = {path.relative_to(ROOT).as_posix() for path in modules() if module in imports(path)}
    assert using <= DOORS[module]


def test_the_import_graph_has_no_cycles() -> None:
    names = {name_of(path) for path in modules()}
    graph = {name_of(path): imports(path) & names - {name_of(path)} for path in modules()}
    while leaves := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    assert not graph, f"these import each other: {sorted(graph)}"


def test_no_folder_holds_more_modules_than_a_reader_takes_in() -> None:
    """The programs in `tools/` are commands with names of the source; they do not count."""
    folders: dict[str, int] = {}
    for path in modules():
        if path.name != "__init__.py" and not is_program(path):
            folders[package_of(path)] = folders.get(package_of(path), 0) + 1
    assert {folder: count for folder, count in folders.items() if count > MOST_MODULES} == {}


def test_the_top_of_driver_is_taken_in_at_once() -> None:
    assert len(list((ROOT / "driver").glob("*.py"))) <= MOST_FILES_OF_DRIVER


def test_no_module_is_longer_than_a_few_screens() -> None:
    sizes = {name_of(path): path.read_text(encoding="utf-8").count("\n") for path in modules()}
    assert {name: lines for name, lines in sizes.items() if lines > MOST_LINES} == {}


def test_every_package_says_what_it_is_for() -> None:
    def said(path: Path) -> str | None:
        return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))

    packages = [path for path in modules() if path.name == "__init__.py"]
    assert [name_of(path) for path in packages if not said(path)] == []


def test_source_text_is_ascii() -> None:
    assert [name_of(path) for path in modules() if not path.read_bytes().isascii()] == []
