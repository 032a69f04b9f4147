"""A name that callers of the source import: this module is `state_store.database.projections`."""

import sys

from state_store.database import projections
from state_store.database.projections import *

sys.modules[__name__] = projections
