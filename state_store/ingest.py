"""Alias of `state_store.tracker.ingest`, kept for programs written for the original project."""

import sys

from state_store.tracker import ingest
from state_store.tracker.ingest import *

sys.modules[__name__] = ingest
