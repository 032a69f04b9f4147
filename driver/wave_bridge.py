"""A name that callers of the source import: this module is `driver.backends.item_bridge`."""

import sys

from driver.backends import item_bridge
from driver.backends.item_bridge import *

sys.modules[__name__] = item_bridge
