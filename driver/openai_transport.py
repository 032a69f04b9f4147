"""A name that callers of the source import: this module is `driver.backends.http.transport`."""

import sys

from driver.backends.http import transport
from driver.backends.http.transport import *

sys.modules[__name__] = transport
