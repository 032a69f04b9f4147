"""Finds the test command of a project by looking at the files at its top. Starts no program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from state_store.documents.errors import InputError
from state_store.documents.files import read_text
from state_store.documents.strict_json import parse_foreign

_NO_TEST = 'echo "Error: no test specified"'  # what npm writes into a new package.json
_MOST_TESTS = 50


def found_tests(top: Path) -> list[str]:
    """The probable test commands of a project, the most probable first."""
    found = (*_python(top), *_node(top), *_others(top))
    return list(dict.fromkeys(found))


def _python(top: Path) -> Iterator[str]:
    if (top / "noxfile.py").is_file():
        yield "nox"
    if (top / "tox.ini").is_file() and "[tox]" in _text(top / "tox.ini"):
        yield "tox -q"
    if _is_pytest(top):
        yield "python3 -m pytest -q"
    elif any(_tests(top)):
        is_package = (top / "tests" / "__init__.py").is_file()
        where = "" if any(top.glob("test*.py")) else " -s tests"
        yield f"python3 -m unittest -q{'' if is_package else ' discover' + where}"


def _is_pytest(top: Path) -> bool:
    """True if settings, requirements or tests of the project name pytest."""
    if (top / "pytest.ini").is_file() or (top / "conftest.py").is_file():
        return True
    settings = ("pyproject.toml", "setup.cfg", "tox.ini", "setup.py")
    requirements = sorted(top.glob("requirements*.txt"))[:_MOST_TESTS]
    named = [*(top / name for name in settings), *requirements, *_tests(top)]
    return any(re.search(r"\bpytest\b", _text(path)) for path in named)


def _tests(top: Path) -> list[Path]:
    places = [top, top / "tests", top / "test"]
    found = (path for place in places for path in sorted(place.glob("test*.py")))
    return [path for path, _ in zip(found, range(_MOST_TESTS), strict=False)]


def _node(top: Path) -> Iterator[str]:
    package = _json(top / "package.json")
    scripts = package.get("scripts")
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if isinstance(script, str) and script.strip() and _NO_TEST not in script:
        manager = "pnpm" if (top / "pnpm-lock.yaml").is_file() else "npm"
        yield "yarn test" if (top / "yarn.lock").is_file() else f"{manager} test"
    parts = (package.get(key) for key in ("devDependencies", "dependencies"))
    used = {name for part in parts if isinstance(part, dict) for name in part}
    for name, command in (
        ("vitest", "npx vitest run"),
        ("jest", "npx jest"),
        ("mocha", "npx mocha"),
    ):
        if name in used:
            yield command
    own = (path for end in ("js", "mjs", "ts") for path in top.glob(f"test/*.test.{end}"))
    if any(own) or any(top.glob("*.test.js")) or any(top.glob("*.test.mjs")):
        yield "node --test"


def _others(top: Path) -> Iterator[str]:
    for file, command in (
        ("go.mod", "go test ./..."),
        ("Cargo.toml", "cargo test"),
        ("pom.xml", "./mvnw -q test" if (top / "mvnw").is_file() else "mvn -q test"),
    ):
        if (top / file).is_file():
            yield command
    if (top / "build.gradle").is_file() or (top / "build.gradle.kts").is_file():
        yield "./gradlew test" if (top / "gradlew").is_file() else "gradle test"
    for name in ("GNUmakefile", "makefile", "Makefile"):
        for target in ("test", "check"):
            if re.search(rf"^{target}\s*:(?!=)", _text(top / name), re.MULTILINE):
                yield f"make {target}"


def _text(path: Path) -> str:
    try:
        return read_text(path)
    except InputError:
        return ""


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if it has none, for example while it is being written."""
    try:
        held = parse_foreign(_text(path) or "{}")
    except ValueError:
        return {}
    return held if isinstance(held, dict) else {}
