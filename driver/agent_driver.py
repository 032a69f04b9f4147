"""A name that callers of the source import: this module is `driver.backend_api.driver`."""

import sys

from driver.backend_api import driver
from driver.backend_api.driver import *

sys.modules[__name__] = driver
