"""A name that callers of the source import: this module is `state_store.database.store`."""

import sys

from state_store.database import store
from state_store.database.store import *

sys.modules[__name__] = store
