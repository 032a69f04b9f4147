"""The tables of docs/configuration.md and the schema of the config, made from the settings."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from driver.pipeline import tables
from tools.settings.schema import FLAGS, KINDS, PRICES, REVIEW_BACKEND, SECTIONS, STATE_DIR
from tools.settings.sources import variable_of

HEADER = "| key | type | default | environment | meaning |\n| --- | --- | --- | --- | --- |\n"
LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
STATE = "the state folder, which holds all stored data"
OWN_PRICES = "your own prices by model, in USD per 1M tokens"


def meanings(shape: type[Any]) -> dict[str, str]:
    """The text below each field of a section. Raises AssertionError for a field without text."""
    (section,) = ast.parse(inspect.getsource(shape)).body
    assert isinstance(section, ast.ClassDef)
    found = {}
    for node, below in zip(section.body, [*section.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            match below:
                case ast.Expr(ast.Constant(str(text))):
                    found[node.target.id] = " ".join(text.split())
                case _:
                    raise AssertionError(f"{shape.__name__}.{node.target.id} has no text below it")
    return found


def plain(text: str) -> str:
    """A text of Markdown without its links and quotes, for editors."""
    without = re.sub(r" \((more|\[[^\]]+\]\([^)]+\))\)", "", text)
    return LINK.sub(r"\1", without).replace("`", "")


def configuration(page: str) -> str:
    """The page with the table of each section made anew; all other text stays."""
    for section, shape in SECTIONS.items():
        if section == REVIEW_BACKEND:
            continue
        heading = f"### `[{section}]`\n"
        assert heading in page, f"docs/configuration.md needs the heading {heading}"
        before, _, rest = page.partition(heading)
        head, _, table = rest.partition(HEADER)
        assert "\n#" not in head, f"the section {section} of docs/configuration.md needs a table"
        _, _, after = table.partition("\n\n")
        rows = "\n".join(_rows(section, shape))
        page = f"{before}{heading}{head}{HEADER}{rows}\n\n{after}"
    return page


def default_of(key: Field[Any]) -> Any:
    """The default of a setting, as JSON has it."""
    made = key.default_factory() if key.default_factory is not MISSING else key.default
    return json.loads(json.dumps(made, default=dict))


def _rows(section: str, shape: type[Any]) -> Iterator[str]:
    told = meanings(shape)
    for key in fields(shape):
        name = f"{section}.{key.name}"
        kind, default = KINDS[name], default_of(key)
        shown = "none" if default is None else f"`{json.dumps(default)}`"
        variable = f"`{variable_of(name)}`" if kind.parse else "-"
        text = told[key.name]
        if name in FLAGS:
            text += f". Flag: `{FLAGS[name]}`"
        yield f"| `{key.name}` | {kind.shape['title']} | {shown} | {variable} | {text} |"


def config_schema() -> dict[str, Any]:
    """The schema of `tidegate.toml`, as JSON data."""
    sections = {name: _section(name, shape) for name, shape in SECTIONS.items()}
    for name in [name for name in sections if "." in name]:
        outer, _, inner = name.partition(".")
        sections[outer]["properties"][inner] = sections.pop(name)
    sections["pipeline"]["properties"]["phase"] |= {"items": phase_schema()}
    state = {**KINDS[STATE_DIR].shape, "description": STATE}
    prices = {**KINDS[PRICES].shape, "description": OWN_PRICES}
    return _closed({STATE_DIR: state, "state_root": state, **sections, PRICES: prices})


def phase_schema() -> dict[str, Any]:
    """The schema of a phase of a pipeline, in a config or an item."""
    known = {key: dict(kind.shape) for key, kind in tables.PHASE_KEYS.items()}
    known["backend"] = _section("backend", SECTIONS["backend"])
    return {**_closed(known), "required": ["name", "kind"]}


def _section(name: str, shape: type[Any]) -> dict[str, Any]:
    told = meanings(shape)
    known = {
        key.name: {
            **KINDS[f"{name}.{key.name}"].shape,
            "description": plain(told[key.name]),
            **({} if default_of(key) is None else {"default": default_of(key)}),
        }
        for key in fields(shape)
    }
    return {**_closed(known), "description": inspect.getdoc(shape)}


def _closed(known: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(known), "additionalProperties": False}
