"""Presets make manifests that can be run, and a manifest's problems are told before it is."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import InputError
from tests.support.interpreter import PYTHON
from tools import wave_templates
from tools.wave_templates import (
    instantiate_template,
    load_preset,
    manifest_problems,
    preset_names,
    validate_presets,
)


def test_the_presets_of_the_source_are_there_and_sound() -> None:
    assert set(preset_names()) >= {"saas", "data", "library"}
    assert validate_presets(preset_names()) == (True, [])


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("base", ["src/shop", ".", "src\\shop\\"])
def test_a_preset_becomes_a_manifest_without_placeholders(name: str, base: str) -> None:
    made = instantiate_template(name, "shop", base)
    assert manifest_problems(made, allow_placeholders=False) == []
    assert "{project_name}" in json.dumps(load_preset(name))
    assert all(item["slug"].startswith("shop-") for item in made["items"])
    folder = base.replace("\\", "/").strip("/")
    assert all(path.startswith(f"{folder}/") for i in made["items"] for path in i["ownsFiles"])


@pytest.mark.parametrize("base", ["src/shop", "."])
def test_the_test_of_a_preset_runs_what_its_item_owns(tmp_path: Path, base: str) -> None:
    for item in instantiate_template("library", "shop", base)["items"]:
        (folder,) = item["ownsFiles"]
        place = tmp_path / folder
        place.mkdir(parents=True)
        (place / "__init__.py").write_text("VALUE = 1\n")
        case = f"import unittest\nfrom {place.name} import VALUE\n\n\n"
        case += (
            "class T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(VALUE, 1)\n"
        )
        (place / "test_it.py").write_text(case)
        command = [*PYTHON, *item["testCmd"][1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.returncode, "Ran 1 test" in done.stderr) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("name", "project", "base"),
    [
        ("nosuch", "shop", "src"),
        ("../data", "shop", "src"),
        ("data", "", "src"),
        ("data", " ", "src"),
        ("data", "a\nb", "src"),
        ("data", "--x", "src"),
        ("data", "shop", "../x"),
        ("data", "shop", ".git"),
        ("data", "shop", ""),
    ],
)
def test_what_cannot_be_a_project_is_refused(name: str, project: str, base: str) -> None:
    with pytest.raises(InputError):
        instantiate_template(name, project, base)


def an_item(**more: Any) -> dict[str, Any]:
    return {"slug": "a", "prompt": "p", "ownsFiles": ["a.py"], "testCmd": "t", **more}


@pytest.mark.parametrize(
    ("manifest", "part"),
    [
        ([], "object"),
        ({"items": []}, "item"),
        ({"items": [an_item(testCmd="")]}, "testCmd"),
        ({"items": [an_item(), an_item(slug="b")]}, "both own 'a.py'"),
        ({"items": [an_item(), an_item(slug="b", ownsFiles=["./"])]}, "whole repository"),
    ],
)
def test_each_problem_of_a_manifest_is_a_sentence(manifest: Any, part: str) -> None:
    assert any(part in problem for problem in manifest_problems(manifest))


def test_placeholders_and_missing_tests_are_allowed_when_asked() -> None:
    without = {"items": [{key: v for key, v in an_item().items() if key != "testCmd"}]}
    assert manifest_problems(without) != []
    assert manifest_problems(without, require_testcmd=False) == []
    holding = {"items": [an_item(slug="{project_name}")]}
    assert manifest_problems(holding) == []
    assert len(manifest_problems(holding, allow_placeholders=False)) == 1


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert wave_templates.main(["validate"]) == 0
    assert "saas" in capsys.readouterr().err
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"items": [an_item(prompt="")]}), encoding="utf-8")
    assert wave_templates.main(["validate", "--template", str(bad), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["ok"] is False
    assert wave_templates.main(["validate", "--template", "data"]) == 0
    out = tmp_path / "m.json"
    made = ["instantiate", "library", "--project-name", "x", "--base-dir", "src"]
    assert wave_templates.main([*made, "--output", str(out)]) == 0
    assert manifest_problems(json.loads(out.read_text(encoding="utf-8"))) == []
    capsys.readouterr()
    assert wave_templates.main(made) == 0
    assert json.loads(capsys.readouterr().out)["items"]
    assert wave_templates.main(["instantiate", "no", "--project-name", "x", "--base-dir", "."]) == 1
    assert "there is no preset 'no'" in capsys.readouterr().err
