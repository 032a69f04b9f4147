"""Alias of `state_store.instance`, kept for programs written for the original project."""

import sys

from state_store import instance
from state_store.instance import *

sys.modules[__name__] = instance
