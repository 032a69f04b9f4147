"""Alias of `driver.backend_api.driver`, kept for programs written for the original project."""

import sys

from driver.backend_api import driver
from driver.backend_api.driver import *

sys.modules[__name__] = driver
