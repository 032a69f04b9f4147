"""Runs the command `tidegate`, for `python -m driver`."""

import sys

from driver.tidegate import main

if __name__ == "__main__":
    sys.exit(main())
