"""A name that callers of the source import: this module is `driver.domain.tiers`."""

import sys

from driver.domain import tiers
from driver.domain.tiers import *

sys.modules[__name__] = tiers
