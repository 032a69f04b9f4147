"""Alias of `state_store.database.projections`, for programs written for the original project."""

import sys

from state_store.database import projections
from state_store.database.projections import *

sys.modules[__name__] = projections
