"""Safe text, progress lines, questions and the results of checks."""
