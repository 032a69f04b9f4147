"""This Python as tests start it: without `site`, which can cost more than all that is run then.

What is installed beside the standard library cannot be imported there; our programs need none.
"""

from __future__ import annotations

import shlex
import sys

PYTHON = (sys.executable, "-S")
IN_SHELL = shlex.join(PYTHON)
# Without the folder that it is started in, too, and whatever the environment says.
ALONE = (sys.executable, "-I", "-S")
