"""A name that callers of the source import: this module is `driver.backends.claude_code`."""

import sys

from driver.backends import claude_code
from driver.backends.claude_code import *

sys.modules[__name__] = claude_code
