"""The package `tidegate`: the one folder that pip installs, with all other packages below it.

Their modules import each other as `driver`, `tools` and `state_store`, so importing this package
puts the folder that holds them first on the import path, before any other package `tools`.
"""

import os
import sys

_HERE = os.path.dirname(os.path.realpath(__file__))
# An editable install leaves them where they are: at the top of the checkout.
_HOME = _HERE if os.path.isdir(f"{_HERE}/driver") else os.path.dirname(os.path.dirname(_HERE))

for _name in ("driver", "tools", "state_store"):
    _loaded = sys.modules.get(_name)
    _where = [os.path.realpath(folder) for folder in getattr(_loaded, "__path__", ())]
    if _loaded is not None and _where != [os.path.join(_HOME, _name)]:
        raise ImportError(
            f"tidegate cannot be imported: another {_name!r} is loaded already, {_loaded!r};"
            " run Tidegate in a process of its own"
        )

sys.path.insert(0, _HOME)
