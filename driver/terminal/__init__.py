"""Safe text, progress lines, questions, one line of an examination."""
