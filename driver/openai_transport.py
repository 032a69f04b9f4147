"""Alias of `driver.backends.http.server`, kept for programs written for the original project."""

import sys

from driver.backends.http import server
from driver.backends.http.server import *

sys.modules[__name__] = server
