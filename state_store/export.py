"""A name that callers of the source import: this module is `state_store.views.export`."""

import sys

from state_store.views import export
from state_store.views.export import *

sys.modules[__name__] = export
