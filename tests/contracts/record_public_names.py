"""Write public_names.json and public_keys.json anew from what the project does now.

Run it only where a public name, flag or key was changed on purpose, and review the difference. It
describes the names that the record lists; a new name is first written into the record by hand, with
"" as its description, and so are new words.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.support import public_keys, public_names  # noqa: E402 - run as a file
from tests.support.programs import ROOT, Project, call, make_template  # noqa: E402

HERE = Path(__file__).parent
REVIEWER = "review.backend"


def main() -> None:
    """Both records."""
    path = HERE / "public_names.json"
    recorded = json.loads(path.read_text(encoding="ascii"))
    with tempfile.TemporaryDirectory() as folder:
        keys = public_keys.documents(Path(folder) / "waves")
        project = Project(Path(folder) / "items", make_template(Path(folder) / "template"))
        items = public_keys.refused_items(project)
    listed = recorded["names"]
    names = {
        module: {name: public_names.described(module, name) for name in listed[module]}
        for module in listed
    }
    _write(HERE / "public_keys.json", keys)
    _write(
        path,
        {
            **recorded,
            "names": names,
            "programs": {one: _flags(one) for one in public_names.program_files()},
            "settings": _settings(keys),
            "variables": _variables(),
            "wrong items": items,
        },
    )


def _flags(program: str) -> list[str]:
    module = import_module(program.removesuffix(".py").replace("/", "."))
    return public_names.flags_of(program, call(module.main, "--help").out)


def _settings(keys: dict[str, list[str]]) -> list[str]:
    lines = (line.partition(" = ")[0] for line in keys["settings and their defaults"])
    told = (name.replace("sandbox_roles.", "sandbox.") for name in lines)
    names = [name for name in told if name != "review_backend"]
    own = [name.partition(".")[2] for name in names if name.startswith("backend.")]
    return sorted([*names, *(f"{REVIEWER}.{key}" for key in own)])


def _variables() -> list[str]:
    """Those that docs/configuration.md tells in the tables of the keys."""
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    return sorted(re.findall(r"\| `(TIDEGATE_[A-Z_]+)` \|", text))


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
