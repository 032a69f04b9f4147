"""`wave_templates` as callers of the original project use it."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import InputError
from tools import wave_templates
from tools.wave_templates import instantiate_template, load_preset, validate_manifest

PRESETS = ("saas", "data", "library")
Captured = pytest.CaptureFixture[str]


def own_preset(**more: Any) -> dict[str, Any]:
    item = {
        "slug": "{project_name}-core",
        "prompt": "Write the core of {project_name}.",
        "workDir": "{base_dir}",
        "ownsFiles": ["src/core.py"],
        "testCmd": "python -m pytest tests",
    }
    return {"items": [{**item, **more}]}


def test_the_folder_of_the_presets_is_a_path() -> None:
    assert isinstance(wave_templates.PRESETS_DIR, Path)
    assert {path.stem for path in wave_templates.PRESETS_DIR.glob("*.json")} >= set(PRESETS)


def test_an_unknown_preset_is_a_missing_file() -> None:
    with pytest.raises(FileNotFoundError, match="no preset") as raised:
        load_preset("nosuch")
    assert isinstance(raised.value, InputError)


@pytest.mark.parametrize("name", PRESETS)
def test_items_of_a_preset_name_their_work_folder(name: str, tmp_path: Path) -> None:
    preset = load_preset(preset_name=name)
    assert {item["workDir"] for item in preset["items"]} == {"{base_dir}"}
    before = copy.deepcopy(preset)
    made = instantiate_template(preset, "My Shop", str(tmp_path))
    assert preset == before
    assert {item["workDir"] for item in made["items"]} == {str(tmp_path)}
    assert made["wave_id"] == "wave-my-shop"
    assert made["wave_description"]
    assert not any(path.startswith("/") for i in made["items"] for path in i["ownsFiles"])
    assert validate_manifest(made, allow_placeholders=False) is None


def test_a_preset_of_the_caller_is_filled_as_it_is() -> None:
    made = instantiate_template(own_preset(), "shop", "/srv/shop")
    (item,) = made["items"]
    assert (item["workDir"], item["ownsFiles"]) == ("/srv/shop", ["src/core.py"])
    assert item["slug"] == "shop-core"
    assert instantiate_template(own_preset(), "shop", "./shop")["items"][0]["workDir"] == "./shop"
    named = instantiate_template({**own_preset(), "wave_id": "{project_name}-1"}, "shop", ".")
    assert named["wave_id"] == "shop-1"
    instantiate_template({"items": [{"slug": "{project_name}"}]}, "not checked", "x")


def item(**more: Any) -> dict[str, Any]:
    return {"slug": "a", "prompt": "p", "ownsFiles": ["a.py"], "testCmd": "t", **more}


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({}, ["items", "missing"]),
        ({"items": []}, ["items", "empty"]),
        ({"items": [{"slug": "a"}]}, ["prompt is missing", "ownsFiles is missing", "testCmd"]),
        ({"items": [item(prompt=" ")]}, ["empty"]),
        ({"items": [item(), item(slug="b")]}, ["overlap", "a.py"]),
        ({"items": [item(workDir="/x"), item(slug="b", workDir="/x")]}, ["overlap"]),
        ({"items": [item(slug="{project_name}")]}, ["placeholder"]),
    ],
)
def test_a_bad_manifest_raises_with_all_problems(manifest: Any, words: list[str]) -> None:
    with pytest.raises(InputError) as raised:
        validate_manifest(manifest=manifest, allow_placeholders=False)
    assert isinstance(raised.value, ValueError)
    assert [word for word in words if word not in str(raised.value)] == []


def test_a_good_manifest_gives_none() -> None:
    assert validate_manifest({"items": [item()]}) is None
    assert validate_manifest(own_preset()) is None
    untested = {"items": [{"slug": "a", "prompt": "p", "ownsFiles": ["a.py"]}]}
    assert validate_manifest(untested, require_testcmd=False) is None


def test_presets_are_checked_by_name(capsys: Captured) -> None:
    assert wave_templates.validate_presets(PRESETS) == (True, [])
    shown = capsys.readouterr()
    assert (shown.out, shown.err.splitlines()) == ("", [f"\u2713 {name}" for name in PRESETS])
    ok, problems = wave_templates.validate_presets(["data", "nosuch"])
    assert (ok, len(problems)) == (False, 1)
    assert problems[0].startswith("nosuch: ")
    assert "\u2717 nosuch" in capsys.readouterr().err
    wave_templates.validate_presets(["data"], output_json=True)
    shown = capsys.readouterr()
    found = {"ok": True, "templates": {"data": {"valid": True, "errors": []}}}
    assert (json.loads(shown.out), shown.err) == (found, "")


def test_all_is_every_preset_and_an_error_is_1(tmp_path: Path, capsys: Captured) -> None:
    for asked in ([], ["--template", "all"]):
        assert wave_templates.main(["validate", *asked, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["templates"].keys() >= set(PRESETS)
    assert wave_templates.main(["validate", "--template", "none.json"]) == 1
    make = ["instantiate", "nosuch", "--project-name", "x", "--base-dir", "."]
    assert wave_templates.main(make) == 1
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    assert wave_templates.main(["validate", "--template", str(bad)]) == 1
