"""Makes manifests for an empty project from presets, and checks manifests.

A preset is a manifest with the placeholders `{project_name}` and `{base_dir}`.
"""

from __future__ import annotations

import sys
from pathlib import Path

if not __package__:  # run as a file, or imported by its bare name
    _ROOT = str(Path(__file__).resolve().parents[1])
    if __name__ == "__main__":
        sys.path[0] = _ROOT  # import from the checkout, not from this folder
    else:
        from importlib import import_module

        sys.path.append(_ROOT)
        sys.modules[__name__] = import_module("tools.wave_templates")

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

PRESETS_DIR = Path(__file__).resolve().parent / "wave_presets"
PROJECT_NAME, BASE_DIR = "{project_name}", "{base_dir}"
ALL = "all"
FAILED = 1


def preset_names() -> tuple[str, ...]:
    """Returns the names of the presets."""
    return tuple(sorted(path.stem for path in PRESETS_DIR.glob("*.json")))


def load_preset(preset_name: str) -> dict[str, Any]:
    """Returns a preset with its placeholders. Raises NoSuchFile for an unknown name."""
    from state_store.documents.errors import NoSuchFile
    from state_store.documents.files import read_json

    known = preset_names()
    if preset_name not in known:
        raise NoSuchFile(f"there is no preset {preset_name!r}; there is {', '.join(known)}")
    found: dict[str, Any] = read_json(PRESETS_DIR / f"{preset_name}.json")
    return found


def instantiate_template(
    preset: str | Mapping[str, Any], project_name: str, base_dir: str
) -> dict[str, Any]:
    """Returns the manifest of a preset for a project. `base_dir` is a folder in its repository, or
    absolute. The result is not checked: a wave does that, and `validate_manifest`.

    Raises InvalidValue for an invalid project name or folder.
    """
    import re

    _check_project(project_name, base_dir)
    template = load_preset(preset) if isinstance(preset, str) else preset
    made: dict[str, Any] = {
        key: _filled(value, {PROJECT_NAME: project_name, BASE_DIR: _spelled(base_dir)})
        for key, value in template.items()
        if key != "items"
    }
    given = template.get("items", [])
    made["items"] = [_made_item(item, project_name, base_dir) for item in given]
    plain = re.sub(r"[^a-z0-9._-]|\.\.", "-", project_name.lower())
    made.setdefault("wave_id", f"wave-{plain}"[:100])
    made.setdefault("wave_description", f"the first items of {project_name}")
    return made


def validate_manifest(
    manifest: object, allow_placeholders: bool = True, require_testcmd: bool = True
) -> None:
    """Raises InvalidValue with every reason why a manifest cannot be run."""
    from state_store.documents.errors import InvalidValue

    if problems := manifest_problems(manifest, allow_placeholders, require_testcmd):
        raise InvalidValue(problems)


def manifest_problems(
    manifest: object, allow_placeholders: bool = True, require_testcmd: bool = True
) -> list[str]:
    """Returns a sentence for each reason why a manifest cannot be run."""
    import json

    from driver.domain.item_fields import is_absolute
    from driver.domain.ownership import find_conflicts, parse_owned
    from driver.domain.work_item import ManifestError, parse_manifest

    text = "" if allow_placeholders else json.dumps(manifest)
    problems = [
        f"the placeholder {name} must be replaced by a value"
        for name in (PROJECT_NAME, BASE_DIR)
        if name in text
    ]
    document = manifest
    listed = manifest.get("items") if isinstance(manifest, dict) else None
    if not require_testcmd and isinstance(manifest, dict) and isinstance(listed, list):
        tested = [{"testCmd": "true", **i} if isinstance(i, dict) else i for i in listed]
        document = {**manifest, "items": tested}
    try:
        items = parse_manifest(document, new_wave_id=lambda: "wave").items
    except ManifestError as error:
        return [*problems, *error.problems]
    owners = []
    for item in items:
        # Files below different absolute folders are compared when the wave looks at the disk.
        apart = is_absolute(item.work_dir)
        folder = "." if apart else item.work_dir
        paths = tuple(parse_owned(entry, folder) for entry in item.owns_files)
        owners.append((item.slug, item.work_dir if apart else item.repo, paths))
    overlaps = (f"overlap: {conflict.describe()}" for conflict in find_conflicts(owners))
    return [*problems, *overlaps]


def validate_presets(
    preset_names: Iterable[str], output_json: bool = False
) -> tuple[bool, list[str]]:
    """(True if all presets are valid, every problem). Prints a line for each on stderr, or one JSON
    document."""
    from state_store.documents.errors import NoSuchFile

    found = {}
    for name in preset_names:
        try:
            found[name] = manifest_problems(load_preset(name))
        except NoSuchFile as error:
            found[name] = list(error.problems)
    return _report(found, as_json=output_json)


def build_parser() -> argparse.ArgumentParser:
    from driver.cli.flags import Parser

    parser = Parser(prog="wave_templates.py", description="Manifests to begin with.")
    actions = parser.add_subparsers(dest="action", required=True)
    check = actions.add_parser("validate", help="check the presets, or one, or a manifest")
    names = f"{', '.join(preset_names())}, {ALL} (the default), or a JSON file"
    check.add_argument("--template", metavar="NAME", default=ALL, help=names)
    make = actions.add_parser("instantiate", help="print the manifest of a preset")
    make.add_argument("preset", metavar="PRESET", help=", ".join(preset_names()))
    make.add_argument("--project-name", metavar="NAME", required=True)
    make.add_argument("--base-dir", metavar="DIR", required=True, help="in the repository, or .")
    make.add_argument("--output", metavar="FILE", help="write it there instead of to stdout")
    actions.metavar = f"{{{','.join(actions.choices)}}}"  # named if it is missing
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """The program. Returns exit code 1 if a checked manifest is invalid, or after an error."""
    from tools.program import program

    return program(build_parser(), _run, argv)


def _run(args: argparse.Namespace) -> int:
    from state_store.documents.errors import TidegateError

    try:
        return _validate(args) if args.action == "validate" else _make(args)
    except TidegateError as error:
        from driver.terminal.safe_text import log_text

        sys.stderr.write(f"wave_templates: {log_text(str(error))}\n")
        return FAILED


def _validate(args: argparse.Namespace) -> int:
    from state_store.documents.json_document import read_json

    known = preset_names()
    if args.template in (ALL, *known):
        names = known if args.template == ALL else (args.template,)
        valid, _ = validate_presets(names, args.json)
    else:
        document = read_json(Path(args.template), "template").value
        valid, _ = _report({args.template: manifest_problems(document)}, as_json=args.json)
    return 0 if valid else FAILED


def _report(found: Mapping[str, list[str]], *, as_json: bool) -> tuple[bool, list[str]]:
    import json

    from driver.terminal.safe_text import safe_line

    valid = not any(found.values())
    if as_json:
        templates = {name: {"valid": not wrong, "errors": wrong} for name, wrong in found.items()}
        print(json.dumps({"ok": valid, "templates": templates}))
    else:
        for name, wrong in found.items():
            print("\u2717" if wrong else "\u2713", safe_line(name), file=sys.stderr)
            for line in wrong:
                print(safe_line(f"  {line}"), file=sys.stderr)
    return valid, [f"{name}: {line}" for name, wrong in found.items() for line in wrong]


def _make(args: argparse.Namespace) -> int:
    import json

    manifest = instantiate_template(args.preset, args.project_name, args.base_dir)
    validate_manifest(manifest, allow_placeholders=False)
    text = json.dumps(manifest, indent=2)
    if args.output is None:
        print(text)
        return 0
    from state_store.documents.files import write_text_where_named

    write_text_where_named(Path(args.output), f"{text}\n")
    return 0


def _check_project(project_name: str, base_dir: str) -> None:
    from driver.domain.item_fields import is_absolute
    from driver.domain.ownership import OwnershipError, parse_owned
    from state_store.documents.errors import InvalidValue

    name = project_name
    if not name.strip() or name.startswith("-") or not name.isprintable() or len(name) > 100:
        raise InvalidValue(f"project name {name!r}: use 1 to 100 characters, and no - at its start")
    if is_absolute(base_dir):
        return
    try:
        parse_owned(f"{base_dir}/x")
    except OwnershipError as error:
        raise InvalidValue(f"base folder {base_dir!r}: {error.reason}") from error


def _made_item(item: Any, project_name: str, base_dir: str) -> Any:
    """An item with its values. If it has `{base_dir}` in its files, a folder in the repository goes
    into the names, because it may not exist yet, as a `workDir` has to."""
    from driver.domain.item_fields import is_absolute

    values = {PROJECT_NAME: project_name, BASE_DIR: _spelled(base_dir)}
    if not isinstance(item, dict) or BASE_DIR not in str(item.get("ownsFiles")):
        return _filled(item, values)
    inside, folder = values[BASE_DIR], "."
    if is_absolute(base_dir):
        inside, folder = folder, inside
    made: dict[str, Any] = _filled(item, {**values, BASE_DIR: inside})
    return {**made, "workDir": folder}


def _spelled(base_dir: str) -> str:
    from driver.domain.item_fields import is_absolute

    return base_dir if is_absolute(base_dir) else base_dir.replace("\\", "/").rstrip("/") or "."


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
