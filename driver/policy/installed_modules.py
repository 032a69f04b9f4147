"""The finding on Python modules that were installed while items were at work. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from driver.domain.findings import Finding, FindingKind
from driver.domain.ownership import comparison_key
from driver.policy.protected_paths import matches

INSTALLED = "installed"
_MAX_NAMED = 5
_REMEDY = "name what the tests need in the project's dependencies and in [workspace] setup"
_IMPORT = re.compile(r"^\s*(?:from|import)\s+([\w.]+(?:\s*,\s*[\w.]+)*)", re.MULTILINE)
# The files, in lower case, in which Python projects name their dependencies.
PYTHON_DEPENDENCIES = """
    pyproject.toml setup.py setup.cfg pipfile pipfile.lock *requirements*.txt *requirements*.in
    requirements/ constraints* environment*.yml environment*.yaml pylock*.toml
    uv.lock poetry.lock pdm.lock
"""


def may_name_dependencies(path: str) -> bool:
    """True for a file in which Python projects name their dependencies."""
    key = comparison_key(path)
    return any(matches(key, pattern) for pattern in PYTHON_DEPENDENCIES.split())


def of_installed(
    modules: Collection[str],
    distributions: Collection[str],
    work: Mapping[str, str],
    dependencies: str,
) -> tuple[Finding, ...]:
    """The finding on new `modules` of `distributions`. It is held against work that imports one of
    them if `dependencies`, the text of all files that can name one, name none of the distributions.
    `work` are the texts of the changed files."""
    if not modules:
        return ()
    named = ", ".join(sorted(modules)[:_MAX_NAMED])
    rest = len(modules) - _MAX_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    reason = f"Python modules were installed while items were at work: {named}{more}"
    imported = {name for text in work.values() for name in _imported(text)} & {*modules}
    words = {*map(normal_name, re.findall(r"[\w.-]+", dependencies))}
    if not imported or words & {*distributions}:
        return (Finding(INSTALLED, FindingKind.DOUBT, reason, _REMEDY),)
    reason = (
        f"its work imports a module that was installed meanwhile: {', '.join(sorted(imported))}"
    )
    return (
        Finding(
            INSTALLED,
            FindingKind.DOUBT,
            reason,
            _REMEDY,
            on_base=False,
            names_change=True,
            by_agent=False,
        ),
    )


def normal_name(distribution: str) -> str:
    """The name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _imported(text: str) -> set[str]:
    """The top names of the modules that a text imports."""
    lists = (match.split(",") for match in _IMPORT.findall(text))
    return {name.strip().partition(".")[0] for names in lists for name in names}
