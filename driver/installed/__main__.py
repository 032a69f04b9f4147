"""The command `tidegate` of an installed copy, which `python -m tidegate` runs too."""

import sys

from driver.tidegate import main

if __name__ == "__main__":
    sys.exit(main())
