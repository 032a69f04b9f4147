"""The imports of a Python test command: the question to its interpreter, and the rules."""
