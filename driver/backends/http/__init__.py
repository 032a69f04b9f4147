"""The client for Chat Completions: requests, answers, files."""
