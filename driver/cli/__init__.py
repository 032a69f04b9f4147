"""The two programs' flags, report files, last lines and the demo."""
