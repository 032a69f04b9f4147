"""Alias of `driver.backend_api.driver`, kept for programs written for the original project."""

import sys
from pathlib import Path

if not __package__:  # imported by its bare name, from this folder on sys.path
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from driver.backend_api import driver
from driver.backend_api.driver import *

sys.modules[__name__] = driver
