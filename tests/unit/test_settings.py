"""What a setting is, from which source it comes, and how a mistake is told."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from state_store.documents.errors import InputError
from tools.settings import load as settings
from tools.settings.kinds import TokenPrice
from tools.settings.schema import (
    KINDS,
    REVIEW_BACKEND,
    SANDBOX_ROLES,
    SECTIONS,
    BackendSettings,
)

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
Load = Callable[..., settings.Settings]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """`settings.load` in a project of its own, with no environment but what a test gives."""
    (tmp_path / "home").mkdir()

    def load_here(
        toml: str = "", *, environ: Mapping[str, str] | None = None, **given: Any
    ) -> settings.Settings:
        if toml:
            (tmp_path / "tidegate.toml").write_text(toml, encoding="utf-8")
        variables = {"HOME": str(tmp_path / "home"), **(environ or {})}
        return settings.load(project=tmp_path, cwd=tmp_path, environ=variables, **given)

    return load_here


def user_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "home" / ".config" / "tidegate" / "tidegate.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


def source_file(folder: Path, **document: Any) -> Path:
    path = folder / "aesop.config.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def problems(load: Load, toml: str = "", **given: Any) -> tuple[str, ...]:
    with pytest.raises(InputError) as caught:
        load(toml, **given)
    return caught.value.problems


def test_without_any_source_the_defaults_hold(load: Load, tmp_path: Path) -> None:
    found = load()
    assert (found.backend.name, found.backend.timeout_s, found.review.mode) == (
        "claude",
        1800.0,
        "policy",
    )
    assert found.state_dir == tmp_path / "state"
    assert found.files == ()


def test_flag_beats_environment_beats_project_beats_user_beats_default(
    load: Load, tmp_path: Path
) -> None:
    user_file(tmp_path, "[backend]\nname='u'\nmodel='u'\ntier=4\nmax_turns=4\n")
    toml = "[backend]\nname='p'\nmodel='p'\ntier=3\n"
    environ = {"TIDEGATE_BACKEND_NAME": "e", "TIDEGATE_BACKEND_MODEL": "e"}
    backend = load(toml, environ=environ, flags={"backend.name": "f"}).backend
    assert (backend.name, backend.model, backend.tier, backend.max_turns, backend.match) == (
        "f",
        "e",
        3,
        4,
        "prompt",
    )


@pytest.mark.parametrize(
    ("written", "kept"),
    [("./agent", "agent"), ("bin/agent", "bin/agent"), ("agent", None), ("/opt/agent", None)],
)
def test_a_program_named_by_a_relative_path_lies_beside_the_file_that_names_it(
    load: Load, tmp_path: Path, written: str, kept: str | None
) -> None:
    command = load(f"[backend]\ncommand=['{written}', 'x/y']\n").backend.command
    assert command == (written if kept is None else str(tmp_path / kept), "x/y")


def test_a_flag_that_was_not_given_sets_nothing(load: Load) -> None:
    found = load("[limits]\nmax_workers=3", flags={"limits.max_workers": None, "state_dir": None})
    assert found.limits.max_workers == 3


EVERY_BACKEND_KEY = """
name = "openai-compatible"
model = "m"
models = { worker = "w", setup = "s", verify = "v" }
base_url = "http://127.0.0.1:1/v1"
api_key_env = "A_KEY"
is_local = true
timeout_s = 5
max_retries = 0
max_owned_bytes = 9
command = ["agent"]
extra_args = ["-x"]
env = ["A_NAME"]
tier = 3
"""


@pytest.mark.parametrize("pyproject", [False, True], ids=["tidegate.toml", "pyproject"])
def test_the_reviewer_has_every_key_of_the_backend(
    load: Load, tmp_path: Path, pyproject: bool
) -> None:
    begin = "tool.tidegate." if pyproject else ""
    toml = "".join(
        f"[{begin}{section}]\n{EVERY_BACKEND_KEY}" for section in ("backend", REVIEW_BACKEND)
    )
    name = "pyproject.toml" if pyproject else "tidegate.toml"
    (tmp_path / name).write_text(toml, encoding="utf-8")
    found = load()
    assert found.review_backend == found.backend
    assert found.backend.models["verify"] == "v"


def test_the_reviewer_takes_over_nothing_from_the_backend(load: Load) -> None:
    found = load("[backend]\nname='codex'\nmodel='m'\n[review.backend]\ntier=2\n")
    assert found.review_backend == BackendSettings(tier=2)
    assert found.review.mode == "policy"


@pytest.mark.parametrize("toml", ["", "[review]\nmode='off'", "[review.backend]\n"])
def test_without_a_key_of_its_own_there_is_no_reviewing_backend(load: Load, toml: str) -> None:
    assert load(toml).review_backend is None


def test_a_variable_sets_a_key_of_the_reviewer(load: Load) -> None:
    found = load(environ={"TIDEGATE_REVIEW_BACKEND_NAME": "codex", "TIDEGATE_REVIEW_MODE": "off"})
    assert found.review_backend == BackendSettings(name="codex")
    assert (found.backend.name, found.review.mode) == ("claude", "off")


def test_an_empty_variable_counts_as_unset(load: Load) -> None:
    environ = {"TIDEGATE_LIMITS_MAX_WORKERS": "", "TIDEGATE_STATE_DIR": ""}
    assert load("[limits]\nmax_workers=3", environ=environ).limits.max_workers == 3


def test_the_table_in_pyproject_is_read_when_there_is_no_tidegate_toml(
    load: Load, tmp_path: Path
) -> None:
    pyproject = tmp_path / "pyproject.toml"
    pyproject.write_text("[tool.tidegate.ship]\nremote='up'\n", encoding="utf-8")
    assert load().ship.remote == "up"
    assert load().files == (pyproject,)
    assert load("[limits]\n").ship.remote is None


def test_a_pyproject_that_says_nothing_to_us_is_not_judged(load: Load, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("not toml at all", encoding="utf-8")
    assert load().files == ()


def test_a_named_config_is_read_instead_of_the_projects_files(load: Load, tmp_path: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text("[backend]\nmodel='o'", encoding="utf-8")
    source_file(tmp_path, model="a", tier=1)
    found = load("[backend]\nname='p'", config=other)
    assert (found.backend.name, found.backend.model, found.backend.tier) == ("claude", "o", None)


def test_a_named_config_that_is_missing_is_an_error(load: Load, tmp_path: Path) -> None:
    (problem,) = problems(load, config=tmp_path / "gone.toml")
    assert "gone.toml does not exist" in problem


@pytest.mark.parametrize("nested", [True, False], ids=["nested", "flat"])
def test_the_sources_config_is_the_weakest_project_file(
    load: Load, tmp_path: Path, nested: bool
) -> None:
    backend = {
        "backend": "codex",
        "model": "gpt-4o",
        "api_key_env": "MY_KEY",
        "base_url": "http://127.0.0.1:1/v1",
        "timeout_s": 5,
        "model_map": {"verify": "gpt-4.1"},
    }
    limits = {"max_wave_tokens": 5e6, "max_daily_tokens": None, "wave_duration_minutes": 60}
    source_file(
        tmp_path, machine="x", limits=limits, **({"backend": backend} if nested else backend)
    )
    found = load("[backend]\nmodel='ours'")
    assert (found.backend.name, found.backend.model) == ("codex", "ours")
    assert (found.backend.api_key_env, found.backend.timeout_s) == ("MY_KEY", 5.0)
    assert dict(found.backend.models) == {"verify": "gpt-4.1"}
    assert (found.limits.max_wave_tokens, found.limits.max_daily_tokens) == (5_000_000, None)


def test_the_sources_config_is_found_in_the_current_folder_too(tmp_path: Path) -> None:
    project, here = tmp_path / "project", tmp_path / "here"
    project.mkdir()
    here.mkdir()
    source_file(here, model="m")
    assert settings.load(project=project, cwd=here, environ={}).backend.model == "m"


def test_all_problems_of_all_sources_are_told_at_once(load: Load, tmp_path: Path) -> None:
    user_file(tmp_path, "[backend]\ntier=9\n")
    found = problems(
        load,
        "[backend]\ntimout_s=5\nis_local='yes'\n[limit]\nmax_workers=1\n",
        environ={"TIDEGATE_LIMITS_MAX_WORKERS": "many"},
        flags={"ship.remot": "x"},
    )
    assert len(found) == 6
    for words in (
        ("tidegate.toml: backend.tier must be a whole number from 1 to 4, not 9",),
        ("backend.timout_s is no known key; did you mean backend.timeout_s?",),
        ("backend.is_local must be true or false, not 'yes'",),
        ("limit is no known section; did you mean limits?",),
        ("TIDEGATE_LIMITS_MAX_WORKERS must be a whole number", "'many'"),
        ("ship.remot sets no known key; did you mean ship.remote?",),
    ):
        assert any(all(word in problem for word in words) for problem in found), (words, found)


@pytest.mark.parametrize(
    ("toml", "hint"),
    [
        ("[backend]\nmax_workers=1", "limits.max_workers"),
        ("max_workers=1", "limits.max_workers"),
        ("stat_dir='x'", "state_dir"),
        ("[review.backnd]\nname='x'", "review.backend"),
        ("[review.backend]\ntimout_s=1", "review.backend.timeout_s"),
        ("[review.backend.models]\nverify='x'\n[review.backend.limits]\nx=1", "limits"),
        ("[backend]\ntimout_s=1", "backend.timeout_s"),
    ],
)
def test_a_key_in_the_wrong_place_is_told_its_place(load: Load, toml: str, hint: str) -> None:
    (problem,) = problems(load, toml)
    assert problem.endswith(f"did you mean {hint}?")


WRONG = [
    "backend.name = 5",
    "backend.name = ''",
    "backend.model = '--dangerous'",
    'backend.model = "two\\nlines"',
    "backend.models = {tester = 'x'}",
    "backend.models = {worker = 5}",
    "backend.command = 'run me'",
    "backend.command = ['']",
    "backend.command = false",
    "backend.env = ['NAME=value']",
    "backend.timeout_s = 0",
    "backend.timeout_s = -1",
    "backend.timeout_s = nan",
    "backend.timeout_s = inf",
    "backend.timeout_s = true",
    "backend.timeout_s = '5'",
    "backend.tier = 0",
    "backend.tier = 5",
    "backend.tier = true",
    "backend.tier = 1.5",
    "backend.match = 'fuzzy'",
    "backend.base_url = 'ftp://x'",
    "backend.max_retries = -1",
    "backend.max_owned_bytes = 0",
    "verify.timeout_s = 1e9",
    "workspace.setup = 'make'",
    "workspace.setup = [[]]",
    "workspace.copy = ['../secret']",
    "workspace.copy = ['/etc/passwd']",
    "workspace.copy = ['C:/x']",
    "workspace.copy = ['a/..\\\\..\\\\x']".replace("'", '"'),
    "workspace.root = 5",
    "review.mode = 'sometimes'",
    "limits.max_workers = 0",
    "limits.max_parallel_tests = 0",
    "limits.max_wave_tokens = '5 million'",
    "limits.max_wave_tokens = -1",
    f"limits.default_dispatch_tokens = {10**12 + 1}",
    "limits.max_daily_tokens = true",
    f"limits.max_daily_tokens = 1{'0' * 400}",
    f"limits.max_daily_tokens = 1{'0' * 400}.5",
    "state_dir = 5",
    "backend = 5",
    "review.backend = 5",
    "review.backend.tier = 5",
]


@pytest.mark.parametrize("line", WRONG)
def test_a_value_of_the_wrong_type_or_range_is_refused(load: Load, line: str) -> None:
    (problem,) = problems(load, line)
    assert line.partition(" ")[0] in problem


def test_a_key_pasted_where_its_name_belongs_is_not_repeated(load: Load) -> None:
    (problem,) = problems(load, "backend.api_key_env = 'sk-live-123'")
    assert "sk-live-123" not in problem


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[backend]\nname = oops\n", "line 2"),
        (b"\xff\xfe", "not UTF-8"),
        (b"x = " + b"1" * 5000, "not valid TOML"),
        (b"x = " + b"[" * 5000, "nested too deeply"),
    ],
)
def test_a_broken_file_is_told_by_its_name(
    load: Load, tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "tidegate.toml").write_bytes(content)
    (problem,) = problems(load)
    assert "tidegate.toml" in problem
    assert words in problem


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1, "a": 2}', '{"limits": 5}'])
def test_a_broken_config_of_the_source_is_told(load: Load, tmp_path: Path, content: str) -> None:
    (tmp_path / "aesop.config.json").write_text(content, encoding="utf-8")
    assert "aesop.config.json" in problems(load)[0]


def test_a_byte_order_mark_is_accepted(load: Load, tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_bytes(b"\xef\xbb\xbf[backend]\nname = 'x'\n")
    assert load().backend.name == "x"


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("TIDEGATE_BACKEND_IS_LOCAL", "yes", "is_local", True),
        ("TIDEGATE_BACKEND_IS_LOCAL", "0", "is_local", False),
        ("TIDEGATE_BACKEND_TIMEOUT_S", "2.5", "timeout_s", 2.5),
        ("TIDEGATE_BACKEND_TIER", "2", "tier", 2),
    ],
)
def test_a_variable_is_read_as_its_keys_type(
    load: Load, variable: str, text: str, name: str, value: object
) -> None:
    assert getattr(load(environ={variable: text}).backend, name) == value


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("TIDEGATE_BACKEND_MODLE", "did you mean TIDEGATE_BACKEND_MODEL?"),
        ("TIDEGATE_REVIEW_BACKEND_MODLE", "did you mean TIDEGATE_REVIEW_BACKEND_MODEL?"),
        ("TIDEGATE_REVIEW_BACKEND", "is no known variable"),
        ("TIDEGATE_BACKEND_COMMAND", "cannot be set in the environment"),
        ("TIDEGATE_BACKEND_TIMEOUT_S", "must be a number of seconds"),
    ],
)
def test_a_variable_that_cannot_be_used_is_an_error(load: Load, variable: str, words: str) -> None:
    (problem,) = problems(load, environ={variable: "nan"})
    assert variable in problem
    assert words in problem


def test_variables_of_no_section_are_not_ours_to_judge(load: Load) -> None:
    assert load(environ={"TIDEGATE_ITEM": "x", "TIDEGATE": "y"}).backend.name == "claude"


def test_a_path_is_relative_to_the_file_that_says_it(load: Load, tmp_path: Path) -> None:
    user_file(tmp_path, "[workspace]\nroot='ws'\n[backend]\nrecording='~/r.jsonl'\n")
    found = load()
    assert found.workspace.root == tmp_path / "home/.config/tidegate/ws"
    assert found.backend.recording == tmp_path / "home/r.jsonl"
    assert load(flags={"workspace.root": Path("w")}).workspace.root == tmp_path / "w"


@pytest.mark.parametrize(
    ("flag", "environ", "key", "expected"),
    [
        (None, {}, None, "state"),
        (None, {}, "s", "s"),
        (None, {"AESOP_ROOT": "/root-of"}, "s", "/root-of/s"),
        (None, {"AESOP_ROOT": "/root-of"}, None, "state"),
        (None, {"AESOP_STATE_ROOT": "e"}, "s", "e"),
        (None, {"TIDEGATE_STATE_DIR": "t", "AESOP_STATE_ROOT": "e"}, "s", "t"),
        ("f", {"TIDEGATE_STATE_DIR": "t"}, "s", "f"),
        ("/f", {}, None, "/f"),
    ],
)
@pytest.mark.parametrize("name", ["state_dir", "state_root"])
def test_all_programs_find_one_state_folder(
    load: Load,
    tmp_path: Path,
    name: str,
    flag: str | None,
    environ: dict[str, str],
    key: str | None,
    expected: str,
) -> None:
    toml = f"{name} = '{key}'" if key else ""
    assert load(toml, environ=environ, flags={"state_dir": flag}).state_dir == tmp_path / expected
    resolved = settings.resolve_state_dir(flag, project=tmp_path, cwd=tmp_path, environ=environ)
    assert resolved == tmp_path / expected
    if flag is None:
        assert settings.place_state_dir(key, environ, tmp_path) == tmp_path / expected


def test_a_wrong_key_elsewhere_does_not_hide_the_state_folder(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text("state_dir='s'\n[backend]\ntier=9\n", encoding="utf-8")
    assert settings.resolve_state_dir(project=tmp_path, environ={}) == tmp_path.cwd() / "s"


def test_an_unreadable_file_leaves_the_state_folder_unknown(tmp_path: Path) -> None:
    source_file(tmp_path, state_root="s")
    (tmp_path / "tidegate.toml").write_text("state_dir=", encoding="utf-8")
    with pytest.raises(InputError, match=r"tidegate\.toml"):
        settings.resolve_state_dir(project=tmp_path, environ={})
    assert settings.resolve_state_dir("/given", project=tmp_path, environ={}) == Path("/given")


def test_an_empty_state_folder_flag_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="empty"):
        settings.resolve_state_dir("", cwd=tmp_path, environ={})


def test_the_environment_is_kept_and_not_shown(load: Load) -> None:
    found = load(environ={"TOKEN": "hush"})
    assert found.environ["TOKEN"] == "hush"
    assert "hush" not in repr(found)


def documented() -> dict[str, tuple[str, str]]:
    """Each documented key with its default and variable, as the tables of the document say."""
    rows: dict[str, tuple[str, str]] = {}
    section = ""
    for line in DOCUMENT.read_text(encoding="utf-8").splitlines():
        if heading := re.fullmatch(r"### `\[([\w.]+)\]`", line):
            section = heading[1]
        elif section and (row := re.match(r"\| `(\w+)` \| [^|]+ \| ([^|]+) \| ([^|]+) \|", line)):
            rows[f"{section}.{row[1]}"] = (row[2].strip(), row[3].strip())
    return rows


def held(loaded: settings.Settings, section: str) -> object:
    outer, _, role = section.partition(".")
    return loaded.sandbox_roles[role] if role else getattr(loaded, outer)


def test_every_key_is_documented_with_its_default_and_variable(load: Load) -> None:
    loaded = load()
    expected = {}
    for section, shape in SECTIONS.items():
        for key in fields(shape) if section != REVIEW_BACKEND else ():  # the same keys again
            name = f"{section}.{key.name}"
            default = getattr(held(loaded, section), key.name)
            shown = "none" if default is None else f"`{json.dumps(default, default=dict)}`"
            named = f"`TIDEGATE_{name}`".replace(".", "_").upper()
            variable = named if KINDS[name].parse else "-"
            expected[name] = (shown, variable)
    assert documented() == expected


def test_the_documented_example_is_valid_and_shows_every_key(load: Load) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    example = max(blocks, key=len)
    load(example)
    shown = set()
    for section, table in tomllib.loads(example).items():
        shown |= {f"{section}.{key}" for key in table} if isinstance(table, dict) else {section}
        shown.add(section)
    roles = tomllib.loads(example)["sandbox"]
    shown |= {f"sandbox.{role}.{key}" for role in SANDBOX_ROLES for key in roles[role]}
    assert REVIEW_BACKEND in shown
    assert {name for name in KINDS if not name.startswith(REVIEW_BACKEND)} <= shown


def test_prices_are_a_table_by_model(load: Load) -> None:
    assert load().prices == {}
    found = load(
        '[prices]\nm = { input = 1, output = 2.5 }\n"a.b" = { input = 0, output = 0, cached = 0 }\n'
    )
    assert found.prices == {"m": TokenPrice(1.0, 2.5), "a.b": TokenPrice(0.0, 0.0, 0.0)}


@pytest.mark.parametrize(
    "table",
    [
        "m = 5",
        "m = {}",
        "m = { input = 1 }",
        "m = { input = 1, output = -1 }",
        "m = { input = 1, output = nan }",
        "m = { input = 1, output = true }",
        "m = { input = 1, output = '2' }",
        "m = { input = 1, output = 2, more = 3 }",
        '"" = { input = 1, output = 2 }',
    ],
)
def test_a_price_that_is_none_is_told(load: Load, table: str) -> None:
    (problem,) = problems(load, f"[prices]\n{table}\n")
    assert "prices must be a table of models" in problem
