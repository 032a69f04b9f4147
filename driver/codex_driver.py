"""Alias of `driver.backends.chat`, kept for programs written for the original project."""

import sys

from driver.backends import chat
from driver.backends.chat import *

sys.modules[__name__] = chat
