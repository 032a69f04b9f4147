"""Alias of `driver.backends.claude_code`, kept for programs written for the original project."""

import sys

from driver.backends import claude_code
from driver.backends.claude_code import *

sys.modules[__name__] = claude_code
