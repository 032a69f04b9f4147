"""A wave before anything is made for it: what is asked for, and whether it can be done at all."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driver.backend_api.driver import AgentDriver
from driver.backends.registry import of_reviewer, review_driver_from
from driver.domain.reviews import is_required
from driver.domain.work_item import Manifest, parse_manifest
from driver.limits.admission import check_before_start
from driver.run_state.context import Planned, Shipping, WaveOptions
from driver.run_state.state_folder import check_state_dir
from driver.wave.item_pipelines import phase_drivers, with_pipelines
from driver.wave.preflight import check_integration, check_ready, preflight
from driver.workspace.repository_info import RepositoryInfo
from tools.settings.load import Settings
from tools.settings.load import load as load_settings


@dataclass(frozen=True)
class WaveRequest:
    """What a wave is asked to do. `state_dir` None keeps no journal and asks no gate."""

    driver: AgentDriver
    manifest: Mapping[str, Any]
    state_dir: Path | None
    shipping: Shipping
    resume: bool
    options: WaveOptions


@dataclass(frozen=True, slots=True)
class Plan:
    """A request that passed the pre-flight; `target` is the branch to start from, None for the one
    that is checked out."""

    items: tuple[Planned, ...]
    settings: Settings
    survey: RepositoryInfo
    target: str | None

    @property
    def tops(self) -> set[Path]:
        """The repositories of its items."""
        return {planned.home.top for planned in self.items if planned.home.top}


def wave_id_of(manifest: object) -> str:
    """The name that a manifest gives its wave, else a new one."""
    named = manifest.get("wave_id") if isinstance(manifest, Mapping) else None
    return str(named or uuid.uuid4())


def check(request: WaveRequest, *, dry: bool = False) -> tuple[Planned, ...]:
    """What is planned. Raise what would keep this wave from its first item; nothing is made or
    changed. A dry run needs neither an agent, nor leave to spend, nor a place for its state."""
    plan = plan_of(request, parse_manifest(request.manifest, new_wave_id=lambda: "not-begun"))
    if not dry:
        check_able(request, plan)
        reviewing_driver(plan)
        phase_drivers(plan.items, plan.settings)
    if not dry and request.state_dir is not None:
        check_before_start(request.state_dir, plan.settings)
        check_state_dir(request.state_dir, request.options.repo)
    for top in plan.tops:
        plan.survey.check_repository(top, plan.settings.ship.remote)
    if dry:
        _check_target(plan)
    return plan.items


def _check_target(plan: Plan) -> None:
    if plan.target is not None:
        for top in plan.tops:
            plan.survey.check_target(top, plan.settings.ship.remote, plan.target)


def check_able(request: WaveRequest, plan: Plan) -> None:
    """Raise InputError and CannotRunError where agents cannot work, or their work not be shipped
    as it is to be."""
    _check_target(plan)
    check_ready(request.driver)
    for top in plan.tops if request.shipping.is_wanted else ():
        onto_target = request.shipping.onto_target
        plan.survey.check_keeping(top, plan.settings.ship.remote, onto_target=onto_target)
        plan.survey.check_signing(top, plan.settings.ship.sign)


def plan_of(request: WaveRequest, manifest: Manifest) -> Plan:
    """The pre-flight: raises PreflightError, InputError and CannotRunError."""
    options, shipping = request.options, request.shipping
    base_dir = (options.repo or Path(shipping.expect_top or Path.cwd())).resolve()
    settings = options.settings or load_settings(project=base_dir)
    check_integration(settings.verify.integration)
    survey = options.survey or RepositoryInfo(settings.environ)
    items = preflight(manifest, request.driver, shipping, base_dir, survey)
    target = shipping.target or settings.ship.target or None
    items = with_pipelines(items, settings, survey, options.from_phase, target)
    return Plan(items, settings, survey, target)


def reviewing_driver(plan: Plan) -> AgentDriver | None:
    """The reviewer's own backend; None where it has none, or where nothing is to be reviewed.

    Raises CannotRunError when it is not ready: before anything is built that nobody could read.
    """
    mode = plan.settings.review.mode
    if not any(is_required(required=p.policy.require_review, mode=mode) for p in plan.items):
        return None
    driver = review_driver_from(plan.settings)
    if driver is not None:
        check_ready(driver, of_reviewer)
    return driver
