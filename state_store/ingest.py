"""A name that callers of the source import: this module is `state_store.tracker.ingest`."""

import sys

from state_store.tracker import ingest
from state_store.tracker.ingest import *

sys.modules[__name__] = ingest
