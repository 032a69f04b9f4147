"""The files of git trees on disk: git's index, and small trees that are written without git."""
