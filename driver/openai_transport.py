"""Alias of `driver.backends.http.server`, kept for programs written for the original project."""

import sys
from pathlib import Path

if not __package__:  # imported by its bare name, from this folder on sys.path
    sys.path.append(str(Path(__file__).resolve().parents[1]))

from driver.backends.http import server
from driver.backends.http.server import *

sys.modules[__name__] = server
