"""Test commands: the shell grammar, the programs they start, and rules for exit codes. Pure."""
