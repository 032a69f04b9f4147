"""Makes manifests for an empty project from presets, and checks manifests.

A preset is a manifest with the placeholders `{project_name}` and `{base_dir}`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file: import from the checkout, not from this folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence
    from typing import Any

PRESETS = Path(__file__).resolve().parent / "wave_presets"
PROJECT_NAME, BASE_DIR = "{project_name}", "{base_dir}"


def preset_names() -> tuple[str, ...]:
    """Returns the names of the presets."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.json")))


def load_preset(name: str) -> dict[str, Any]:
    """Returns a preset with its placeholders. Raises InputError for an unknown name."""
    from state_store.documents.errors import InputError
    from state_store.documents.files import read_json

    if name not in preset_names():
        raise InputError(f"there is no preset {name!r}; there is {', '.join(preset_names())}")
    found: dict[str, Any] = read_json(PRESETS / f"{name}.json")
    return found


def instantiate_template(
    preset: str | Mapping[str, Any], project_name: str, base_dir: str
) -> dict[str, Any]:
    """Returns the manifest of a preset for a project. `base_dir` is a folder in its repository.

    Raises InputError for an invalid project name, folder or manifest.
    """
    import re

    from driver.domain.ownership import OwnershipError, parse_owned
    from state_store.documents.errors import InputError

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", project_name):
        raise InputError(f"project name {project_name!r}: use letters, digits, '.', '_' and '-'")
    try:
        parse_owned(f"{base_dir}/x")
    except OwnershipError as error:
        raise InputError(f"base folder {base_dir!r}: {error.reason}") from error
    template = load_preset(preset) if isinstance(preset, str) else preset
    values = {PROJECT_NAME: project_name, BASE_DIR: base_dir.replace("\\", "/").rstrip("/") or "."}
    made: dict[str, Any] = _filled(template, values)
    if problems := validate_manifest(made, allow_placeholders=False):
        raise InputError(problems)
    return made


def validate_manifest(
    m: object, allow_placeholders: bool = True, require_testcmd: bool = True
) -> list[str]:
    """Returns a sentence for each reason why a manifest cannot be run."""
    import json

    from driver.domain.ownership import find_conflicts, parse_owned
    from driver.domain.work_item import ManifestError, parse_manifest

    text = "" if allow_placeholders else json.dumps(m)
    problems = [
        f"{name} must be replaced by a value" for name in (PROJECT_NAME, BASE_DIR) if name in text
    ]
    document = m
    if not require_testcmd and isinstance(m, dict) and isinstance(m.get("items"), list):
        tested = [{"testCmd": "true", **i} if isinstance(i, dict) else i for i in m["items"]]
        document = {**m, "items": tested}
    try:
        items = parse_manifest(document, new_wave_id=lambda: "wave").items
    except ManifestError as error:
        return [*problems, *error.problems]
    owners = [
        (item.slug, item.repo, tuple(parse_owned(e, item.work_dir) for e in item.owns_files))
        for item in items
    ]
    return [*problems, *(conflict.describe() for conflict in find_conflicts(owners))]


def validate_presets() -> dict[str, list[str]]:
    """Returns the problems of each preset, by name."""
    return {name: validate_manifest(load_preset(name)) for name in preset_names()}


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="wave_templates.py", description="Manifests to begin with.")
    actions = parser.add_subparsers(dest="action", required=True)
    check = actions.add_parser("validate", help="check the presets, or one, or a manifest")
    check.add_argument("--template", metavar="NAME", help="a preset or a JSON file (default: all)")
    check.add_shared("--json")
    make = actions.add_parser("instantiate", help="print the manifest of a preset")
    make.add_argument("preset", metavar="PRESET", help=", ".join(preset_names()))
    make.add_argument("--project-name", metavar="NAME", required=True)
    make.add_argument("--base-dir", metavar="DIR", required=True, help="in the repository, or .")
    make.add_argument("--output", metavar="FILE", help="write it there instead of to stdout")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 if a checked manifest is invalid."""
    from tools.program import program

    verbs = {"validate": _validate, "instantiate": _make}
    return program(build_parser(), lambda args: verbs[args.action](args), argv)


def _validate(args: argparse.Namespace) -> int:
    from state_store.documents.json_document import read_json
    from tools.program import show

    found = validate_presets()
    if args.template in found:
        found = {args.template: found[args.template]}
    elif args.template:
        found = {args.template: validate_manifest(read_json(Path(args.template), "template").value)}
    lines = (f"{name}: {line}" for name, wrong in found.items() for line in wrong or ["ok"])
    show({"valid": not any(found.values()), "templates": found}, lines, as_json=args.json)
    return int(any(found.values()))


def _make(args: argparse.Namespace) -> int:
    import json

    manifest = instantiate_template(args.preset, args.project_name, args.base_dir)
    text = json.dumps(manifest, indent=2)
    if args.output is None:
        print(text)
        return 0
    from state_store.documents.files import write_text_where_named

    write_text_where_named(Path(args.output), f"{text}\n")
    return 0


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for placeholder, text in values.items():
            value = value.replace(placeholder, text)
        return value
    if isinstance(value, list):
        return [_filled(entry, values) for entry in value]
    if isinstance(value, dict):
        return {key: _filled(entry, values) for key, entry in value.items()}
    return value


if __name__ == "__main__":
    sys.exit(main())
