"""A name that callers of the source import: this module is `driver.backends.chat`."""

import sys

from driver.backends import chat
from driver.backends.chat import *

sys.modules[__name__] = chat
