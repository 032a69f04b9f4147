"""Alias of `state_store.views.snapshots`, kept for programs written for the original project."""

import sys

from state_store.views import snapshots
from state_store.views.snapshots import *

sys.modules[__name__] = snapshots
