"""A name that callers of the source import: this module is `state_store.views.snapshots`."""

import sys

from state_store.views import snapshots
from state_store.views.snapshots import *

sys.modules[__name__] = snapshots
