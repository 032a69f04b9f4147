"""Alias of `driver.domain.tiers`, kept for programs written for the original project."""

import sys
from pathlib import Path

if not __package__:  # imported by its bare name, from this folder on sys.path
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from driver.domain import tiers
from driver.domain.tiers import *

sys.modules[__name__] = tiers
