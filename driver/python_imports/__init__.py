"""Where a Python test command imports from: the question to its interpreter, and its rules."""
