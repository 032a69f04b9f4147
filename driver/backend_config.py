"""Alias of `driver.backends.config`, kept for programs written for the original project."""

import sys

from driver.backends import config
from driver.backends.config import *

sys.modules[__name__] = config
