"""The house plan's arrows, read from the imports."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("state_store", "tools", "driver")
DATABASE = (
    "database",
    "integrity",
    "kept_items",
    "kept_spend",
    "schema",
    "sqlite_errors",
    "store",
    "transaction",
)
DOORS = {
    "subprocess": {"driver/execution/processes.py", "driver/execution/supervised.py"},
    "sqlite3": {f"state_store/{name}.py" for name in DATABASE},
}


def modules() -> list[Path]:
    return sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


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


def imports_from_above(path: Path) -> set[str]:
    layer = path.relative_to(ROOT).parts[0]
    above = set(LAYERS[LAYERS.index(layer) + 1 :]) | {"tests"}
    return {name for name in imports(path) if name.split(".")[0] in above}


def test_a_module_imports_only_its_own_layer_and_those_below() -> None:
    found = {name_of(path): imports_from_above(path) for path in modules() if not is_program(path)}
    assert {name: above for name, above in found.items() if above} == {}


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


def test_source_text_is_ascii() -> None:
    assert [name_of(path) for path in modules() if not path.read_bytes().isascii()] == []


def test_the_map_names_every_module_and_no_other() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    layers = text.split("\n## ")[1]
    cells = [line.split("|")[-2] for line in layers.splitlines() if line.startswith("|")]
    named = set(re.findall(r"`(?:tools/)?([a-z_]+)(?:\.py)?`", " ".join(cells)))
    there = {path.stem for path in modules() if path.stem != "__init__"}
    assert (there - named, named - there) == (set(), set())
