"""Names to backends, and the source's three functions on plain dicts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from driver.backend_api.driver import MODEL_ROLES
from driver.backend_api.models import PRICES, Price
from driver.backends.chat import CodexDriver
from driver.backends.cli.local_driver import DEFAULT_STALL_S, LocalDriver
from driver.backends.config import build_driver, describe_backend, load_backend_config
from driver.backends.http.server import Server
from driver.backends.recording import RecordingWriter
from driver.backends.registry import ADAPTERS, driver_from, review_driver_from
from state_store.documents.errors import InputError
from tools.settings.kinds import TokenPrice
from tools.settings.load import Settings, load
from tools.settings.schema import BackendSettings


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "aesop.config.json"


def test_the_default_is_claude_at_tier_1() -> None:
    driver = driver_from(BackendSettings(), {"PATH": "/bin"})
    assert driver.name == "claude-code"
    assert driver.probe_capabilities().recommended_verification_tier == 1
    assert driver.resolve_model("setup") == "sonnet"


def test_settings_reach_the_backend() -> None:
    backend = BackendSettings(
        command=("agent",), tier=3, model="large", models={"verify": "small"}, name="command"
    )
    driver = driver_from(backend, {})
    assert driver.probe_capabilities().recommended_verification_tier == 3
    roles = [driver.resolve_model(role) for role in ("worker", "setup", "verify")]
    assert roles == ["large", "large", "small"]


def settings(tmp_path: Path, toml: str) -> Settings:
    (tmp_path / "tidegate.toml").write_text(toml, encoding="utf-8")
    return load(project=tmp_path, environ={"HOME": str(tmp_path)})


def test_the_reviewer_is_the_backend_of_its_own_table(tmp_path: Path) -> None:
    toml = "[backend]\nname='command'\ncommand=['a']\n[review.backend]\nmodel='opus'\n"
    reviewer = review_driver_from(settings(tmp_path, toml))
    assert reviewer is not None
    assert (reviewer.name, reviewer.resolve_model("verify")) == ("claude-code", "opus")


def test_without_a_table_of_its_own_there_is_no_reviewing_backend(tmp_path: Path) -> None:
    assert review_driver_from(settings(tmp_path, "[review]\nmode='always'\n")) is None


def test_a_wrong_reviewer_is_told_by_its_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\[review\.backend\] name: .*did you mean 'claude'"):
        review_driver_from(settings(tmp_path, "[review.backend]\nname='claud'\n"))


def test_one_model_serves_every_role_of_claude() -> None:
    driver = driver_from(BackendSettings(model="opus"), {})
    assert {driver.resolve_model(role) for role in ("worker", "setup", "verify")} == {"opus"}


def test_a_recording_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "wave.jsonl"
    RecordingWriter(path)
    backend = BackendSettings(name="replay", recording=path, match="item", tier=2)
    driver = driver_from(backend, {})
    assert (driver.name, driver.probe_capabilities().recommended_verification_tier) == ("replay", 2)


@pytest.mark.parametrize(
    ("backend", "problem"),
    [
        (BackendSettings(name="claud"), "did you mean 'claude'"),
        (BackendSettings(name="zzz"), "known are claude, command, replay"),
        (BackendSettings(name="command"), r"\[backend\] command"),
        (BackendSettings(name="replay"), r"\[backend\] recording"),
    ],
)
def test_a_backend_that_cannot_be_meant_is_bad_input(
    backend: BackendSettings, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        driver_from(backend, {})


COMPATIBLE = {"backend": "openai-compatible", "base_url": "http://[::1]:1/v1", "model": "m"}


def test_codex_takes_every_setting_of_a_completion_backend() -> None:
    backend = BackendSettings(
        name="codex",
        model="ours",
        models={"verify": "theirs"},
        api_key_env="LAB_KEY",
        base_url="https://lab.example/v1",
        timeout_s=60,
        stall_s=5,
        max_retries=0,
        max_owned_bytes=9,
        tier=4,
        env=("HTTPS_PROXY",),
    )
    driver = driver_from(backend, {"LAB_KEY": "k"})
    assert isinstance(driver, CodexDriver)
    assert [driver.resolve_model(role) for role in MODEL_ROLES] == ["ours", "ours", "theirs"]
    assert driver.server == Server("https://lab.example/v1", "LAB_KEY", ("HTTPS_PROXY",))
    assert (driver.timeout_s, driver.stall_s, driver.max_retries) == (60, 5, 0)
    assert (driver.max_owned_bytes, driver.tier) == (9, 4)
    assert driver.readiness_problems() == ()


def test_codex_needs_no_model_and_its_key_by_name() -> None:
    driver = driver_from(BackendSettings(name="codex"), {})
    assert {driver.resolve_model(role) for role in MODEL_ROLES} <= set(PRICES)
    (problem,) = driver.readiness_problems()
    assert "OPENAI_API_KEY" in problem


@pytest.mark.parametrize(
    ("backend", "missing"),
    [
        (BackendSettings(name="openai-compatible"), ["base_url", "model"]),
        (BackendSettings(name="openai-compatible", model="m"), ["base_url"]),
        (BackendSettings(name="openai-compatible", base_url="http://[::1]/v1"), ["model"]),
    ],
)
def test_an_openai_compatible_server_needs_address_and_model(
    backend: BackendSettings, missing: list[str]
) -> None:
    with pytest.raises(InputError) as caught:
        driver_from(backend, {})
    assert [problem.rpartition(" ")[2] for problem in caught.value.problems] == missing


@pytest.mark.parametrize(
    ("more", "key_name"),
    [
        ({}, ""),
        ({"api_key_env": "LAB_KEY"}, "LAB_KEY"),
        ({"base_url": "https://lab.example/v1"}, "OPENAI_API_KEY"),
    ],
)
def test_a_server_on_this_machine_gets_no_key_that_was_not_meant_for_it(
    more: dict[str, str], key_name: str
) -> None:
    driver = build_driver({**COMPATIBLE, **more}, environ={"OPENAI_API_KEY": "k", "LAB_KEY": "k"})
    assert isinstance(driver, CodexDriver)
    assert driver.server.key_name == key_name


def test_a_local_model_has_time_and_is_checked_more() -> None:
    here = build_driver({**COMPATIBLE, "is_local": True}, environ={})
    hosted = build_driver({**COMPATIBLE, "base_url": "https://lab.example/v1"}, environ={})
    assert isinstance(here, CodexDriver)
    assert isinstance(hosted, CodexDriver)
    assert (here.stall_s, hosted.stall_s) == (None, DEFAULT_STALL_S)
    assert (here.tier, hosted.tier) == (3, 2)


def test_the_users_prices_reach_every_backend_of_ours() -> None:
    prices = {"m": TokenPrice(1.0, 2.0, 0.5)}
    for name in ("claude", "codex"):
        driver = driver_from(BackendSettings(name=name), {}, prices)
        assert isinstance(driver, LocalDriver)
        assert driver.prices == {"m": Price(1.0, 2.0, 0.5)}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({}, {"backend": "claude"}),
        ({"state_root": "s"}, {"backend": "claude", "state_root": "s"}),
        ({"backend": "codex", "model": "m"}, {"backend": "codex", "model": "m"}),
        (
            {"backend": {"backend": "codex", "model": "m", "extra": 1}, "other": 2},
            {"backend": "codex", "model": "m", "extra": 1},
        ),
        (
            {"backend": "openai-compatible", "model": "m", "base_url": "http://127.0.0.1/v1"},
            {"backend": "openai-compatible", "model": "m", "base_url": "http://127.0.0.1/v1"},
        ),
    ],
)
def test_a_config_is_nested_or_flat_and_keeps_its_keys(
    config: Path, content: dict[str, object], expected: dict[str, object]
) -> None:
    config.write_text(json.dumps(content), encoding="utf-8")
    assert load_backend_config(config) == expected


def test_no_file_means_claude(config: Path) -> None:
    assert load_backend_config(config) == {"backend": "claude"}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("{", ValueError),
        ("[" * 100_000, ValueError),
        ('{"backend": "gpt"}', ValueError),
        ('{"backend": "codex"}', ValueError),
        ('{"backend": "openai-compatible", "model": "m"}', ValueError),
        ("[]", TypeError),
        ('{"backend": 7}', TypeError),
        ('{"backend": {"backend": null}}', TypeError),
    ],
)
def test_a_bad_config_has_the_sources_error_type_and_our_exit_code(
    config: Path, content: str, error: type[Exception]
) -> None:
    config.write_text(content, encoding="utf-8")
    with pytest.raises(error, match=r"aesop\.config\.json") as caught:
        load_backend_config(config)
    assert isinstance(caught.value, InputError)


def test_a_folder_in_place_of_the_file_is_a_value_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        load_backend_config(tmp_path)


def test_a_dict_builds_a_driver_without_contacting_anything() -> None:
    config = {"backend": "claude", "model_map": {"worker": "opus"}, "tier": 3}
    driver = build_driver(config, environ={})
    assert driver.resolve_model("worker") == "opus"
    assert driver.probe_capabilities().recommended_verification_tier == 1


def test_an_unknown_backend_is_a_value_error_to_build_and_a_line_to_describe() -> None:
    with pytest.raises(ValueError, match="'gpt'"):
        build_driver({"backend": "gpt"}, environ={})
    assert describe_backend({"backend": "gpt"}) == "unknown backend 'gpt'"


@pytest.mark.parametrize("name", [*ADAPTERS, "h\u00e9"])
def test_every_backend_is_described_in_one_ascii_line(name: str) -> None:
    line = describe_backend({"backend": name})
    assert line.isascii()
    assert line
    assert "\n" not in line
