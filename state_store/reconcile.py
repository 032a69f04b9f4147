"""A name that callers of the source import: this module is `state_store.views.reconcile`."""

import sys

from state_store.views import reconcile
from state_store.views.reconcile import *

sys.modules[__name__] = reconcile
