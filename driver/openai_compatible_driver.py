"""Alias of `driver.backends.openai_compatible`, for programs written for the original project."""

import sys

from driver.backends import openai_compatible
from driver.backends.openai_compatible import *

sys.modules[__name__] = openai_compatible
