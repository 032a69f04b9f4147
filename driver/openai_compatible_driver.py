"""A name that callers of the source import: this module is `driver.backends.openai_compatible`."""

import sys

from driver.backends import openai_compatible
from driver.backends.openai_compatible import *

sys.modules[__name__] = openai_compatible
