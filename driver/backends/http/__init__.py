"""Models behind Chat Completions: request, answer, files."""
