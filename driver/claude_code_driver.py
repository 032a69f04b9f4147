"""Alias of `driver.backends.claude_code`, kept for programs written for the original project."""

import sys
from pathlib import Path

if not __package__:  # imported by its bare name, from this folder on sys.path
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from driver.backends import claude_code
from driver.backends.claude_code import *

sys.modules[__name__] = claude_code
