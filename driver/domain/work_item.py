"""The manifest of a wave: its items, checked once and frozen. The JSON of users and schedulers
becomes data that the engine trusts. Every name, type and size is checked, and all problems are
reported at once. The pre-flight checks later that repositories and folders exist."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any

from driver.backend_api.driver import EFFORT_NORMAL
from driver.domain import item_fields as fields
from driver.domain.item_fields import Command, InvalidValueError, is_absolute
from driver.domain.ownership import OwnershipError, comparison_key, parse_owned
from driver.runners.counts import Allowance
from driver.test_command.exit_code_rules import command_problems
from state_store.documents.errors import InputError
from state_store.documents.item_id import id_of
from state_store.values.lazy_dataclass import dataclass, field
from state_store.values.names import WAVE_ID_RULE, is_wave_id

MAX_ITEMS = 10_000
MAX_PROBLEMS_SHOWN = 100

NO_OWNERSHIP = "no_file_ownership"
INVALID_ENTRIES = "invalid_ownsFiles_entries"
INVALID_PATH = "invalid_path"
INVALID_COMMAND = "invalid_testCmd"


class ManifestError(InputError):
    """A manifest that no wave can run. `problems` has a sentence for each fault."""

    def __init__(self, problems: Sequence[str]) -> None:
        left_out = len(problems) - MAX_PROBLEMS_SHOWN
        shown = [*problems[:MAX_PROBLEMS_SHOWN]]
        super().__init__([*shown, f"and {left_out} more problems"] if left_out > 0 else shown)


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """The reason why an item cannot be built: a word for programs and a sentence for people."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A piece of work for one agent. With None, the backend's tier or the settings give the value.
    `owns_files` keeps its spelling, relative to `work_dir`. `work_dir` is relative to the
    repository, or absolute. `extra` holds unknown keys, unchanged."""

    slug: str
    prompt: str
    owns_files: tuple[str, ...]
    test_command: Command
    work_dir: str = "."
    repo: str | None = None
    item_id: str | None = None
    title: str | None = None
    label: str | None = None
    phase: str | None = None
    effort: str = EFFORT_NORMAL
    model: str | None = None
    self_check: Command | None = None
    baseline: str | None = None
    fewer_tests: int | None = None
    more_skipped: int | None = None
    exclusive: bool | None = None
    needs: tuple[str, ...] | None = None
    verification_tier: int | None = None
    repair_cap: int | None = None
    require_review: bool | None = None
    spot_check_frac: float | None = None
    validate_all_json: bool | None = None
    pipeline: tuple[Any, ...] | None = field(default=None, hash=False)
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def allowance(self) -> Allowance:
        """The accepted loss of tests against the base: fewer tests, more skipped tests."""
        return Allowance(self.fewer_tests or 0, self.more_skipped or 0)

    def to_json(self) -> dict[str, Any]:
        """The manifest's JSON form, without the keys that have no value."""
        known = {key: getattr(self, name) for key, (name, _) in FIELDS.items()}
        listed = {k: list(v) if isinstance(v, tuple) else v for k, v in known.items()}
        return {**self.extra, **{k: v for k, v in listed.items() if v is not None}}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A wave's items in order. Slugs and ids are unique; two items may still own one file."""

    wave_id: str
    description: str
    items: tuple[WorkItem, ...]

    def to_json(self) -> dict[str, Any]:
        """The manifest's JSON form."""
        return {
            "wave_id": self.wave_id,
            "wave_description": self.description,
            "items": [item.to_json() for item in self.items],
        }


def parse_manifest(document: object, *, new_wave_id: Callable[[], str]) -> Manifest:
    """Check a parsed manifest; `new_wave_id` makes an id if the manifest has none. The document is
    never changed. Raises ManifestError with every problem."""
    if not isinstance(document, Mapping):
        raise ManifestError(['a manifest is an object with a list "items"'])
    problems: list[str] = []
    given, wave_id, description = document.get("wave_id"), None, ""
    if given is not None:
        wave_id = id_of({"id": given})
        if not wave_id or not is_wave_id(wave_id):
            problems.append(f"wave_id names files and branches: use {WAVE_ID_RULE}")
    try:
        description = fields.text_of(document.get("wave_description") or "")
    except InvalidValueError as fault:
        problems.append(f"wave_description {fault}")
    items = tuple(_items(document.get("items"), problems))
    problems += _repeated(items)
    if problems:
        raise ManifestError(problems)
    return Manifest(wave_id or new_wave_id(), description, items)


def check_item(item: Mapping[str, Any]) -> tuple[WorkItem | None, tuple[ItemProblem, ...]]:
    """The item as data and no problems, or None and all its problems."""
    values, found = _values(item, FIELDS)
    command = values.get("test_command")
    if problems := (*found, *(_unsafe(command) if command else ())):
        return None, problems
    given = {name: value for name, value in values.items() if value is not None}
    extra = {key: value for key, value in item.items() if key not in FIELDS}
    return WorkItem(**given, extra=extra), ()


def item_problems(item: Mapping[str, Any]) -> tuple[ItemProblem, ...]:
    """All problems of an item, as `check_item` reports them."""
    return check_item(item)[1]


def shape_problems(item: Mapping[str, Any]) -> tuple[ItemProblem, ...]:
    """All problems of an item but those that only a parser of its test command finds."""
    return tuple(_values(item, FIELDS)[1])


def value_is_sound(key: str, value: object) -> bool:
    """True if the value of a field that is not required has no problem of its own."""
    try:
        return value is None or FIELDS[key][1](value) is not None
    except InvalidValueError:
        return False


def command_problems_of(item: Mapping[str, Any]) -> tuple[ItemProblem, ...]:
    """The problems that the parser finds in the test command of an item without other problems."""
    return _unsafe(fields.command_of(item["testCmd"]))


def ownership_problems(item: Mapping[str, Any]) -> tuple[ItemProblem, ...]:
    """All problems of an item's files, work folder and repository."""
    return tuple(_values(item, ("ownsFiles", "workDir", "repo"))[1])


def _values(
    item: Mapping[str, Any], keys: Iterable[str]
) -> tuple[dict[str, Any], list[ItemProblem]]:
    found: list[ItemProblem] = []
    values: dict[str, Any] = {}
    for key in keys:
        value, (name, check) = item.get(key), FIELDS[key]
        if value is None and key not in REQUIRED:
            continue
        values[name] = None
        try:
            if value is None:
                raise InvalidValueError(f"is missing{_near(item, key)}: {REQUIRED[key]}")
            values[name] = check(value)
        except InvalidValueError as fault:
            found.append(ItemProblem(_REASONS.get(key, f"invalid_{key}"), f"{key} {fault}"))
    found += _owned(values)
    return values, found


def _items(listed: object, problems: list[str]) -> Iterator[WorkItem]:
    if not isinstance(listed, list | tuple):
        missing = "is missing: it " if listed is None else ""
        problems.append(f'"items" {missing}must be a list of items')
        return
    if not listed:
        problems.append('"items" is empty; add an item or do not start a wave')
    if len(listed) > MAX_ITEMS:
        problems.append(f"there are {len(listed)} items, more than {MAX_ITEMS}; split the wave")
    for number, item in enumerate(islice(listed, MAX_ITEMS), start=1):
        if not isinstance(item, Mapping):
            problems.append(f"item {number}: it must be an object")
            continue
        work_item, found = check_item(item)
        slug = item.get("slug")
        named = f" (slug {slug[:80]!r})" if isinstance(slug, str) else ""
        problems += [f"item {number}{named}: {problem.text}" for problem in found]
        if work_item:
            yield work_item


def _near(item: Mapping[str, Any], key: str) -> str:
    """A hint at another spelling of a missing key, such as `test_cmd` or `ownFiles`; "" for
    none."""
    unknown = (k for k in islice(item, 100) if k not in FIELDS)
    spelled = {str(k)[:50].replace("_", "").replace("-", "").lower(): k for k in unknown}
    near = [spelled[found] for found in get_close_matches(key.lower(), spelled, 1, 0.8)]
    return f" (found {near[0]!r}; write {key!r})" if near else ""


def _owned(values: Mapping[str, Any]) -> Iterator[ItemProblem]:
    folder = values.get("work_dir") or "."
    base = "." if is_absolute(folder) else folder
    try:
        parse_owned("any-name", base)
    except OwnershipError as fault:
        base = "."
        yield ItemProblem(INVALID_PATH, f"workDir {folder!r} cannot be used: {fault.reason}")
    for entry in values["owns_files"] or ():
        if not isinstance(entry, str) or not entry.strip():
            yield ItemProblem(INVALID_ENTRIES, "every entry of ownsFiles must be a file name")
            continue
        try:
            parse_owned(entry, base)
        except OwnershipError as fault:
            yield ItemProblem(INVALID_PATH, f"ownsFiles entry {fault}")


@lru_cache(maxsize=1024)  # a backlog has few different test commands
def _unsafe(command: Command) -> tuple[ItemProblem, ...]:
    found = command_problems(command, pipefail=os.name != "nt")
    return tuple(ItemProblem(INVALID_COMMAND, f"testCmd: {problem}") for problem in found)


def _repeated(items: Sequence[WorkItem]) -> Iterator[str]:
    """Problems with repeated slugs and ids. Slugs that differ only in case would share files and
    branches."""
    slugs: dict[str, str] = {}
    ids: set[str] = set()
    for item in items:
        key = comparison_key(item.slug)
        if key in slugs:
            also = "" if slugs[key] == item.slug else f" (also as {slugs[key]!r})"
            yield f"the slug {item.slug!r} is used twice{also}; give each item its own"
        slugs.setdefault(key, item.slug)
        if item.item_id is not None and item.item_id in ids:
            yield f"the id {item.item_id!r} is used twice; give each item its own"
        ids.add(item.item_id or "")


REQUIRED = {
    "slug": "it names the item in reports and on branches",
    "prompt": "it tells the agent what to do",
    "ownsFiles": "it lists what the agent may change",
    "testCmd": "without a test nothing can be proven",
}

_REASONS = {
    "ownsFiles": NO_OWNERSHIP,
    "slug": "missing_or_empty_slug",
    "prompt": "missing_or_empty_prompt",
    "testCmd": "missing_or_empty_testCmd",
}

# JSON key -> (field of WorkItem, check of its value)
FIELDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "ownsFiles": ("owns_files", fields.entries_of),
    "id": ("item_id", fields.identifier_of),
    "slug": ("slug", fields.slug_of),
    "title": ("title", fields.label_of),
    "prompt": ("prompt", fields.full_text_of),
    "testCmd": ("test_command", fields.command_of),
    "workDir": ("work_dir", fields.full_text_of),
    "repo": ("repo", fields.full_text_of),
    "selfCheckCmd": ("self_check", fields.command_of),
    "baseline": ("baseline", fields.baseline_of),
    "fewerTests": ("fewer_tests", fields.count_of),
    "moreSkipped": ("more_skipped", fields.count_of),
    "exclusive": ("exclusive", fields.flag_of),
    "needs": ("needs", fields.resources_of),
    "label": ("label", fields.label_of),
    "phase": ("phase", fields.label_of),
    "effort": ("effort", fields.effort_of),
    "model": ("model", fields.model_of),
    "verificationTier": ("verification_tier", fields.tier_of),
    "repairCap": ("repair_cap", fields.rounds_of),
    "requireAdversarialReview": ("require_review", fields.flag_of),
    "spotCheckFrac": ("spot_check_frac", fields.share_of),
    "validateAllJson": ("validate_all_json", fields.flag_of),
    "pipeline": ("pipeline", fields.phases_of),
}
