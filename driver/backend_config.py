"""A name that callers of the source import: this module is `driver.backends.config`."""

import sys

from driver.backends import config
from driver.backends.config import *

sys.modules[__name__] = config
