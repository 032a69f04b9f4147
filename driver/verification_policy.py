"""Alias of `driver.domain.tiers`, kept for programs written for the original project."""

import sys

from driver.domain import tiers
from driver.domain.tiers import *

sys.modules[__name__] = tiers
