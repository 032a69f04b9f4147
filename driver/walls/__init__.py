"""Walls: the sandbox around an agent, a test, a set-up or a hook, and the proof that it holds."""
