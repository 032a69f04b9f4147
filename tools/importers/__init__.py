"""Items from GitHub, Markdown and CSV."""
