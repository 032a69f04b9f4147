"""A model behind HTTP that sees files and answers with files; `driver.codex_driver` is its backend.

Whoever needs no HTTP imports nothing from here.
"""
