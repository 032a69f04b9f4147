"""Checks of the machine, the folders, the backends and the forge before anything is spent."""
