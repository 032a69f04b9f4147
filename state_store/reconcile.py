"""Alias of `state_store.views.reconcile`, kept for programs written for the original project."""

import sys

from state_store.views import reconcile
from state_store.views.reconcile import *

sys.modules[__name__] = reconcile
