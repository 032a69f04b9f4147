"""Alias of `state_store.views.export`, kept for programs written for the original project."""

import sys

from state_store.views import export
from state_store.views.export import *

sys.modules[__name__] = export
