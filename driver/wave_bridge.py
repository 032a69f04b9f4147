"""Alias of `driver.backends.item_bridge`, kept for programs written for the original project."""

import sys

from driver.backends import item_bridge
from driver.backends.item_bridge import *

sys.modules[__name__] = item_bridge
