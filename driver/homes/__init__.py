"""The private homes of commands."""
