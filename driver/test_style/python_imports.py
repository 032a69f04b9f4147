"""The imports of a Python file: the names that they bind, and the place of a further one. Pure."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Mapping


def imported_names(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """The names that the absolute imports among `nodes` bind, each with what it stands for."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for one in node.names:
                top = one.name.partition(".")[0]
                found[one.asname or top] = one.name if one.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                found[one.asname or one.name] = f"{node.module}.{one.name}"
    return found


def dotted_name(node: ast.expr, imported: Mapping[str, str]) -> str:
    """The full name of what an expression names, by the `imported` names; "" if it is no plain
    name."""
    if isinstance(node, ast.Name):
        return imported.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        above = dotted_name(node.value, imported)
        return f"{above}.{node.attr}" if above else ""
    return ""


def import_place(module: ast.Module, name: str) -> tuple[int, tuple[str, ...]] | None:
    """The number of the line after which `import NAME` of a standard module goes, and the lines to
    insert there. None for a file without imports at its top."""
    imports = list[ast.Import | ast.ImportFrom]()
    for node in module.body[1 if ast.get_docstring(module) is not None else 0 :]:
        if not isinstance(node, ast.Import | ast.ImportFrom):
            break
        imports.append(node)
    if not imports:
        return None
    line = f"import {name}"
    own = [node for node in imports if _top_name(node) != "__future__"]
    standard = [node for node in own if _top_name(node) in sys.stdlib_module_names]
    before = [n for n in standard if isinstance(n, ast.Import) and n.names[0].name < name]
    if before:
        return before[-1].end_lineno or 0, (line,)
    if standard:
        return standard[0].lineno - 1, (line,)
    if own:
        return own[0].lineno - 1, (line, "")
    return imports[-1].end_lineno or 0, ("", line)


def _top_name(node: ast.Import | ast.ImportFrom) -> str:
    """The first part of the imported name; "" for a relative import."""
    name = node.names[0].name if isinstance(node, ast.Import) else node.module or ""
    relative = isinstance(node, ast.ImportFrom) and node.level
    return "" if relative else name.partition(".")[0]
