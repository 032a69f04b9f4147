"""A name that callers of the source import: this module is `driver.backends.http.server`."""

import sys

from driver.backends.http import server
from driver.backends.http.server import *

sys.modules[__name__] = server
