"""Alias of `driver.backends.item_bridge`, kept for programs written for the original project."""

import sys
from pathlib import Path

if not __package__:  # imported by its bare name, from this folder on sys.path
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from driver.backends import item_bridge
from driver.backends.item_bridge import *

sys.modules[__name__] = item_bridge
