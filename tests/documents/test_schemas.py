"""The JSON Schemas accept what the programs accept, and refuse what they refuse."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from driver.domain.item_fields import InvalidValueError
from driver.domain.work_item import check_item, parse_manifest
from state_store.tracker.file import read_tracker_file
from tests.documents.schemas import (
    FOLDER,
    ITEM_CHECKS,
    NEEDED_KEYS,
    ROOT,
    SHAPES,
    TRACKER_KEYS,
)
from tests.documents.shop import Shop
from tests.support.json_schema import Problems, checkers
from tests.unit.test_settings import EVERY_BACKEND_KEY, WRONG
from tools.settings.load import load
from tools.settings.schema import KINDS, SECTIONS
from tools.starter import CONFIG, tracker_text

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SCHEMAS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(FOLDER.iterdir())}
ITEM = {"slug": "a", "prompt": "b", "ownsFiles": ["c"], "testCmd": "true"}
LONG = "x" * 1001
problems = checkers()


def blocks(language: str) -> list[tuple[str, str]]:
    """The fenced examples of a language in all pages, each with its page."""
    found = []
    for page in PAGES:
        text = re.sub(r"^ +(?=`)", "", page.read_text("utf-8"), flags=re.MULTILINE)
        for block in re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            found.append((page.name, block))
    return found


def kind_of(document: Any) -> str | None:
    """The schema of an example; None for a document without a schema of its own."""
    if not isinstance(document, dict) or "nonce" in document:
        return None
    return "tracker" if "version" in document else "manifest"


JSON_EXAMPLES = [
    pytest.param(kind, document, id=f"{page}-{kind}")
    for page, block in blocks("json")
    if (kind := kind_of(document := json.loads(block)))
]
TOML_EXAMPLES = [tomllib.loads(block) for _, block in blocks("toml")]


def test_the_pages_have_examples_of_each_kind() -> None:
    kinds = [str(one.values[0]) for one in JSON_EXAMPLES]
    assert (kinds.count("tracker"), kinds.count("manifest")) >= (2, 1)
    assert len(TOML_EXAMPLES) > 10


@pytest.mark.more
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_a_schema(name: str) -> None:
    package = pytest.importorskip("jsonschema", reason="the package jsonschema is not installed")
    package.Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"urn:tidegate:schema:{name}:1"


@pytest.mark.parametrize(("kind", "document"), JSON_EXAMPLES)
def test_an_example_of_the_pages_fits(problems: Problems, kind: str, document: Any) -> None:
    assert problems(document, SCHEMAS[kind]) == []


def test_the_configurations_of_the_pages_fit(problems: Problems) -> None:
    for example in [*TOML_EXAMPLES, tomllib.loads(CONFIG)]:
        assert problems(example, SCHEMAS["config"]) == []


def test_the_trackers_of_the_demo_and_of_init_fit(problems: Problems) -> None:
    demo = (ROOT / "driver" / "cli" / "demo_files" / "tracker.json").read_text("utf-8")
    for text in (demo, tracker_text()):
        assert problems(json.loads(text), SCHEMAS["tracker"]) == []


PRESETS = sorted(path.stem for path in (ROOT / "tools" / "wave_presets").glob("*.json"))


@pytest.mark.more
@pytest.mark.parametrize("name", PRESETS)
def test_a_manifest_of_a_template_fits(shop: Shop, problems: Problems, name: str) -> None:
    flags = f"--project-name shop --base-dir src/shop --output beside/{name}.json"
    made = shop.once(f"tidegate templates instantiate {name} {flags}")
    assert made.code == 0, made.err
    manifest = json.loads((shop.repo.path / f"beside/{name}.json").read_text("utf-8"))
    assert problems(manifest, SCHEMAS["manifest"]) == []
    assert problems(
        {**manifest, "items": [{**manifest["items"][0], "slug": 5}]}, SCHEMAS["manifest"]
    )


# Documents that no reader takes, with the words of the first fault.
WRONG_DOCUMENTS: list[tuple[str, Any]] = [
    ("tracker", {"version": 2, "items": []}),
    ("tracker", {"version": 1}),
    ("tracker", {"items": [5]}),
    ("tracker", "items"),
    ("tracker", {"items": [{"status": "todo", **ITEM}]}),  # no id
    ("tracker", {"items": [{"id": 1, "status": "todo", "slug": "a"}]}),
    ("manifest", {"items": []}),
    ("manifest", [ITEM]),
    ("manifest", {"items": [{**ITEM, "effort": "much"}]}),
    ("manifest", {"items": [{"slug": "a"}]}),
    ("manifest", {"wave_id": "a b", "items": [ITEM]}),
    ("config", {"backend": {"timout_s": 5}}),
    ("config", {"limit": {}}),
    ("config", {"pipeline": {"phase": [{"name": "a", "kind": "agnt"}]}}),
]


@pytest.mark.parametrize(("name", "document"), WRONG_DOCUMENTS)
def test_a_wrong_document_does_not_fit(problems: Problems, name: str, document: Any) -> None:
    assert problems(document, SCHEMAS[name])


def a_value_of(key: str) -> Any:
    """A value that a key of an item takes."""
    samples: list[Any] = ["a", "green", ["a"], 1, 0.5, True, "quick"]
    if key == "pipeline":  # its phases are checked with the configuration
        return [{"name": "implement", "kind": "agent"}]
    return next(one for one in samples if accepts(key, one))


def accepts(key: str, value: Any) -> bool:
    try:
        ITEM_CHECKS[key](value)
    except InvalidValueError:
        return False
    return True


@pytest.mark.parametrize("key", ITEM_CHECKS)
def test_each_key_of_an_item_is_known(problems: Problems, key: str) -> None:
    item, wrong = {**ITEM, key: a_value_of(key)}, {**ITEM, key: {"x": 1}}
    assert check_item(item)[1] == ()
    assert check_item(wrong)[1]
    for name, more in (("manifest", {}), ("tracker", {"status": "todo", "id": "T"})):
        assert problems({"items": [{**more, **item}]}, SCHEMAS[name]) == []
        assert problems({"items": [{**more, **wrong}]}, SCHEMAS[name])


VALUES = [
    *("", " ", "a", "a b", "-a", "é", "a\nb", "a\0b", "green", "quick", "normal", "thorough", LONG),
    *(0, 1, 3, 4, 5, 100, 101, -1, 2.0, 0.5, 1.5, True, False, {}, {"a": 1}),
    *([], ["a"], [""], ["a", ""], ["a", 5], [["a"]], [" "]),
]


@pytest.mark.sampled(44)
@pytest.mark.parametrize("key", [key for key in ITEM_CHECKS if key not in ("pipeline",)])
def test_a_value_fits_where_its_check_accepts_it(problems: Problems, key: str) -> None:
    for value in VALUES:
        # The entries of ownsFiles are checked with their folder; 2.0 is an integer to JSON Schema.
        told = accepts(key, value)
        if key == "ownsFiles" and isinstance(value, list):
            told = told and all(isinstance(one, str) and one.strip() for one in value)
        if value == 2.0 and not told:
            continue
        assert (problems(value, SHAPES[ITEM_CHECKS[key]]) == []) == told, (key, value)


def test_every_key_of_the_tracker_is_known() -> None:
    recorded = json.loads((ROOT / "tests/contracts/public_keys.json").read_text("ascii"))
    written = {re.split(r"[.\[: =]", line)[0] for line in recorded["item of tracker.json"]}
    page = (ROOT / "docs" / "formats.md").read_text("utf-8").split("**Order.**")[0]
    documented = {
        key
        for cell in re.findall(r"^\| (`[^|]+) \|", page, flags=re.MULTILINE)
        for key in re.findall(r"`(\w+)`", cell)
    }
    known = {*TRACKER_KEYS, *ITEM_CHECKS}
    assert written - known == set()
    assert documented - known == set()
    assert known - documented - ITEM_CHECKS.keys() == set()


def test_every_setting_is_known(problems: Problems) -> None:
    known = {
        f"{section}.{key}"
        for section, shape in SCHEMAS["config"]["properties"].items()
        for key in shape.get("properties", {})
    }
    inner = [name for name in SECTIONS if "." in name]
    for name in inner:
        section, _, key = name.partition(".")
        held = SCHEMAS["config"]["properties"][section]["properties"][key]["properties"]
        known |= {f"{name}.{key}" for key in held}
    assert {name for name in KINDS if "." in name} == known - {*inner}
    toml = "".join(f"[{name}]\n{EVERY_BACKEND_KEY}" for name in ("backend", "review.backend"))
    assert problems(tomllib.loads(toml), SCHEMAS["config"]) == []
    assert problems({"state_dir": "s", "state_root": "s"}, SCHEMAS["config"]) == []


# JSON has no such numbers, or no limit for them.
NUMBERS = re.compile(r"= (nan|inf|10{300})")


@pytest.mark.parametrize("line", [line for line in WRONG if not NUMBERS.search(line)])
def test_a_wrong_setting_does_not_fit(problems: Problems, line: str) -> None:
    assert problems(tomllib.loads(line), SCHEMAS["config"])


# JSON Schema has no words for these rules: git's rules for the name of a branch.
FINER = {"checkpoint.branch"}
SETTINGS = [
    *("", " ", "a", "-a", "a b", "a\nb", "A_B", "A=B", "http://x", "ftp://x", "../a", "a/../b"),
    *("/a", "C:/a", "a\\b", "main", "a..b", "none", "off", "A", "draft", "auto", "/", "a/"),
    *(0, 1, 4, 5, -1, 0.5, 1e6, 10**12, 10**13, True, False, {}, {"a": 1}, {"worker": "a"}),
    *([], [""], ["a"], ["a", 5], ["../a"], [["a"]], [[]], ["A=B"], [{}], [{"name": "a"}]),
    *([" "], ["-a"], ["/a"], ["C:/a"], ["a\\b"], {"m": {"input": 1, "output": 2}}, {"m": {}}),
]


@pytest.mark.sampled(49)
@pytest.mark.parametrize("name", [name for name in KINDS if name not in FINER])
def test_a_setting_fits_where_its_kind_accepts_it(problems: Problems, name: str) -> None:
    for value in SETTINGS:
        try:
            KINDS[name].accept(value)
        except (ValueError, OverflowError):
            accepted = False
        else:
            accepted = True
        assert (problems(value, KINDS[name].shape) == []) == accepted, (name, value)


def test_a_default_fits(problems: Problems, tmp_path: Path) -> None:
    defaults = load(project=tmp_path, environ={})
    for section, shape in SCHEMAS["config"]["properties"].items():
        for key, rule in shape.get("properties", {}).items():
            if "default" in rule:
                assert problems(rule["default"], rule) == []
                held = getattr(getattr(defaults, section), key)
                assert json.loads(json.dumps(held, default=dict)) == rule["default"]
    assert {name for name in SECTIONS if "." not in name} <= SCHEMAS["config"]["properties"].keys()


def test_a_document_may_name_its_schema(tmp_path: Path, problems: Problems) -> None:
    name = "urn:tidegate:schema:tracker:1"
    tracker = {"$schema": name, "version": 1, "items": [{"id": "T", "status": "todo", **ITEM}]}
    path = tmp_path / "tracker.json"
    path.write_text(json.dumps(tracker), encoding="utf-8")
    assert [item["id"] for item in read_tracker_file(path).entries] == ["T"]
    assert problems(tracker, SCHEMAS["tracker"]) == []
    manifest = {"$schema": "urn:tidegate:schema:manifest:1", "wave_id": "w", "items": [ITEM]}
    assert parse_manifest(manifest, new_wave_id=str).wave_id == "w"
    assert problems(manifest, SCHEMAS["manifest"]) == []


def test_needed_keys_are_needed(problems: Problems) -> None:
    for key in NEEDED_KEYS:
        without = {name: value for name, value in ITEM.items() if name != key}
        assert problems({"items": [without]}, SCHEMAS["manifest"])
        assert check_item(without)[1]
