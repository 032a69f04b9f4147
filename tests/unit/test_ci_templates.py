"""The workflows that are handed out have what keeps an unattended run in bounds."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from driver.cli.completion import _parser_of
from tests.support.yaml_outline import outline
from tools.settings.load import load
from tools.starter import CI_TEMPLATES, WORKFLOWS

BUDGET = {"TIDEGATE_LIMITS_MAX_WAVE_TOKENS", "TIDEGATE_LIMITS_MAX_DAILY_TOKENS"}
ROOT = CI_TEMPLATES.parents[1]


def text_of(name: str) -> str:
    return (CI_TEMPLATES / name).read_text(encoding="utf-8")


@pytest.fixture
def github() -> dict[str, Any]:
    found: dict[str, Any] = outline(text_of("github.yml"))
    return found


@pytest.fixture
def gitlab() -> dict[str, Any]:
    found: dict[str, Any] = outline(text_of("gitlab.yml"))
    return found


def step(job: dict[str, Any], part: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = [
        s for s in job["steps"] if part in str(s.get("uses", s.get("run")))
    ]
    return found[0]


def test_the_outline_reads_what_it_knows_and_refuses_the_rest() -> None:
    text = "a: 1\nb:\n- x\n- k: v\n  l: |\n    one\n\n    two\n\nc:\n  d: # why\n    - 'e: f'\n"
    assert outline(text) == {
        "a": "1",
        "b": ["x", {"k": "v", "l": "one\n\ntwo"}],
        "c": {"d": ["e: f"]},
    }
    for odd in ("a: 1\na: 2", "a: [1]", "a: &x 1", "no key", "a: {b: c}", "a:\n\tb: 1"):
        with pytest.raises(AssertionError):
            outline(odd)


def test_every_template_is_handed_out_and_in_ascii() -> None:
    named = {template for files in WORKFLOWS.values() for template, _, _ in files}
    assert named == {path.name for path in CI_TEMPLATES.iterdir()}
    for name in named:
        assert text_of(name).isascii()


def test_github_starts_by_the_clock_by_hand_and_for_the_merge_queue(github: dict[str, Any]) -> None:
    assert github["on"].keys() == {"schedule", "workflow_dispatch", "pull_request", "merge_group"}
    (entry,) = github["on"]["schedule"]
    assert not entry["cron"].startswith("0 ")  # everybody's hour is when runs are dropped


@pytest.mark.parametrize("name", ["wave", "secrets"])
def test_every_github_job_is_bounded_and_has_only_the_rights_it_needs(
    github: dict[str, Any], name: str
) -> None:
    job = github["jobs"][name]
    assert github["permissions"] == "{}"
    assert 0 < int(job["timeout-minutes"]) <= 360
    assert job["concurrency"]["group"].startswith("tidegate")
    rights = {"wave": {"contents": "write", "pull-requests": "write", "issues": "read"}}
    assert job["permissions"] == rights.get(name, {"contents": "read"})
    checkout = step(job, "actions/checkout")["with"]
    assert checkout["fetch-depth"] == "0"
    assert all(
        s["with"]["persist-credentials"] == "false"
        for s in job["steps"]
        if s.get("uses", "").startswith("actions/checkout")
    )


def test_a_github_wave_is_never_cut_off_by_the_next(github: dict[str, Any]) -> None:
    assert github["jobs"]["wave"]["concurrency"]["cancel-in-progress"] == "false"


def test_a_github_wave_has_a_budget_keeps_its_state_and_shows_what_came_of_it(
    github: dict[str, Any],
) -> None:
    wave = github["jobs"]["wave"]
    assert wave["env"].keys() >= BUDGET
    restored, saved = step(wave, "cache/restore"), step(wave, "cache/save")
    assert restored["with"]["key"] == saved["with"]["key"]
    assert saved["with"]["key"].startswith(restored["with"]["restore-keys"])
    shown = [saved, step(wave, "upload-artifact"), step(wave, "GITHUB_STEP_SUMMARY")]
    assert all(s["if"] == "always()" for s in shown)
    assert "report.json" in step(wave, "upload-artifact")["with"]["path"]
    assert "wave_scheduler.py --execute" in step(wave, "wave_scheduler")["run"]


def test_no_github_step_puts_what_others_wrote_into_a_script(github: dict[str, Any]) -> None:
    for job in github["jobs"].values():
        for one in job["steps"]:
            assert "${{" not in one.get("run", "")


def test_secrets_are_seen_by_the_wave_alone(github: dict[str, Any]) -> None:
    wave = github["jobs"]["wave"]
    holders = [s.get("name") for s in wave["steps"] if "secrets." in str(s.get("env"))]
    assert holders == ["Wave"]
    assert "secrets." not in str(wave["env"]) + str(github["jobs"]["secrets"])


def test_gitlab_has_the_same_bounds(gitlab: dict[str, Any]) -> None:
    base, wave, secrets = (gitlab[n] for n in (".tidegate", "tidegate-wave", "tidegate-secrets"))
    assert base["variables"]["GIT_DEPTH"] == "0"
    assert wave["variables"].keys() >= BUDGET
    assert (wave["resource_group"], wave["interruptible"]) == ("tidegate", "false")
    assert wave["timeout"]
    assert secrets["timeout"]
    assert wave["cache"]["when"] == wave["artifacts"]["when"] == "always"
    assert wave["cache"]["paths"] == ["state/"]
    assert "state/last.json" in wave["artifacts"]["paths"]
    assert 'schedule"' in wave["rules"][0]["if"]
    assert "merge_request_event" in secrets["rules"][0]["if"]
    assert all(job["extends"] == ".tidegate" for job in (wave, secrets))
    assert any("wave_scheduler.py --execute" in line for line in wave["script"])


def test_the_cron_line_has_a_time_limit_a_budget_no_stdin_and_a_log() -> None:
    lines = [x for x in text_of("crontab").splitlines() if x and not x.startswith("#")]
    assert {line.partition("=")[0] for line in lines[:-1]} >= BUDGET | {"PATH", "SHELL"}
    fields = lines[-1].split(None, 5)
    assert all(re.fullmatch(r"[\d*,/-]+", field) for field in fields[:5])
    for part in ('cd "$PROJECT"', "timeout -k", "--execute", "</dev/null", "2>>", "--output"):
        assert part in fields[5]
    assert "%" not in fields[5]  # cron takes it for a line break


def test_the_systemd_units_are_bounded_and_start_after_a_missed_night() -> None:
    units = {}
    for name in ("tidegate.service", "tidegate.timer"):
        parser = configparser.RawConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read_string(text_of(name))
        units[name] = parser
    service, timer = units["tidegate.service"]["Service"], units["tidegate.timer"]
    assert service["Type"] == "oneshot"
    assert service["StandardInput"] == "null"
    assert service.keys() >= {"User", "WorkingDirectory", "TimeoutStartSec", "EnvironmentFile"}
    assert "--execute" in service["ExecStart"]
    for name in BUDGET:
        assert f"Environment={name}=" in text_of("tidegate.service")
    assert timer["Timer"]["Persistent"] == "true"
    assert timer["Install"]["WantedBy"] == "timers.target"


def test_the_runners_of_the_matrix_share_one_database_and_have_bounds() -> None:
    matrix = outline(text_of("github-matrix.yml"))
    assert matrix["permissions"] == "{}"
    assert matrix["concurrency"]["cancel-in-progress"] == "false"
    wave, intake = matrix["jobs"]["wave"], matrix["jobs"]["intake"]
    assert wave["strategy"]["matrix"]["runner"] == ["1", "2", "3", "4"]
    assert wave["strategy"]["fail-fast"] == "false"
    assert wave["env"].keys() >= BUDGET
    for job in (wave, intake):
        assert 0 < int(job["timeout-minutes"]) <= 360
        assert all("${{" not in one.get("run", "") for one in job["steps"])
        holders = [s["name"] for s in job["steps"] if "secrets." in str(s.get("env"))]
        assert holders == ["Wave" if job is wave else "New issues"]
        (url,) = {
            s["env"]["TIDEGATE_STATE_URL"]
            for s in job["steps"]
            if "TIDEGATE_STATE_URL" in s.get("env", {})
        }
        assert url == "${{ secrets.TIDEGATE_STATE_URL }}"
        assert not any("cache" in s.get("uses", "") for s in job["steps"]), "the database has it"


@pytest.mark.parametrize(("name", "passed"), [("github", {0}), ("github-matrix", {0, 3})])
@pytest.mark.skipif(shutil.which("bash") is None, reason="the steps of GitHub run in bash")
def test_a_wave_that_fails_makes_its_step_red(name: str, passed: set[int], tmp_path: Path) -> None:
    script = step(outline(text_of(f"{name}.yml"))["jobs"]["wave"], "wave_scheduler.py")["run"]
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\nexit "$CODE"\n')
    fake.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    for code in (0, 1, 2, 3, 4, 143):
        env = {"PATH": path, "CODE": str(code), "RUNNER_TEMP": str(tmp_path)}
        # GitHub runs a step that names no shell in this way, without pipefail.
        done = subprocess.run(
            ["bash", "-e", "-c", script], env=env, capture_output=True, check=False
        )
        assert (done.returncode == 0) == (code in passed), (code, done.stderr)


def test_a_pod_that_fails_does_not_end_the_other_pods() -> None:
    spec = outline(text_of("kubernetes.yml"))["spec"]["jobTemplate"]["spec"]
    assert "backoffLimit" not in spec, "it counts the failures of all pods, and then ends the rest"
    assert (spec["completionMode"], spec["backoffLimitPerIndex"]) == ("Indexed", "0")


def test_the_pods_are_ordinary_users_with_bounds_and_secrets_by_reference() -> None:
    job = outline(text_of("kubernetes.yml"))
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    spec = job["spec"]["jobTemplate"]["spec"]
    assert int(spec["parallelism"]) == int(spec["completions"]) > 1
    assert int(spec["activeDeadlineSeconds"]) <= 6 * 3600
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] == "true"
    assert int(pod["securityContext"]["runAsUser"]) > 0
    assert pod["automountServiceAccountToken"] == "false"
    (container,) = pod["containers"]
    assert container["securityContext"]["allowPrivilegeEscalation"] == "false"
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    for kind in ("requests", "limits"):
        assert container["resources"][kind].keys() == {"cpu", "memory", "ephemeral-storage"}
    named = {one["name"]: one for one in container["env"]}
    assert named.keys() >= BUDGET
    secret = {name for name, one in named.items() if "valueFrom" in one}
    assert secret == {"TIDEGATE_STATE_URL", "GIT_TOKEN", "ANTHROPIC_API_KEY"}
    for name in secret:
        assert named[name]["valueFrom"]["secretKeyRef"] == {"name": "tidegate", "key": name}


def test_the_compose_file_has_three_workers_one_database_and_no_password() -> None:
    services = outline(text_of("compose.yml"))["services"]
    assert services.keys() == {"database", "setup", "worker"}
    assert services["worker"]["deploy"]["replicas"] == "3"
    for one in services.values():
        passwords = {v for k, v in one["environment"].items() if "PASSWORD" in k}
        assert all(value.startswith("${TIDEGATE_DB_PASSWORD") for value in passwords)
        assert "ports" not in one, "the database is not open to others"
    assert "service_healthy" in str(services["setup"]["depends_on"])


@pytest.mark.parametrize("name", ["github-matrix.yml", "kubernetes.yml", "compose.yml"])
def test_every_command_of_the_templates_for_many_machines_is_one_of_ours(name: str) -> None:
    programs = {"tools/intake.py": "intake", "driver/wave_scheduler.py": "run"}
    text = text_of(name).replace("\\\n", " ")
    found = re.findall(
        r"^ *(?:exec )?(tidegate|python \.\./tidegate/\S+) ([^#\n]*?)(?: \|\| .*| 2>&1.*)?$",
        text,
        re.MULTILINE,
    )
    assert found
    for program, words in found:
        given = [one if "$" not in one else "place" for one in shlex.split(words)]
        script = program.partition("../tidegate/")[2]
        word, *rest = [programs[script], *given] if script else given
        parser = _parser_of(word)
        assert parser is not None
        parser.parse_args(rest)


@pytest.mark.parametrize("name", sorted(path.name for path in CI_TEMPLATES.iterdir()))
def test_every_program_and_setting_that_a_template_names_is_there(name: str) -> None:
    text = text_of(name)
    programs = re.findall(r"\b((?:driver|tools)/\w+\.py)", text)
    assert all((ROOT / program).is_file() for program in programs)
    limits = dict(re.findall(r"(TIDEGATE_LIMITS_\w+)[=:] ?\"?(\w+)", text))
    load(environ={"HOME": "/nowhere", **limits}, project=CI_TEMPLATES)
