"""Alias of `state_store.database.store`, kept for programs written for the original project."""

import sys

from state_store.database import store
from state_store.database.store import *

sys.modules[__name__] = store
