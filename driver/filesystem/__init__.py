"""Folders and files that others may have written."""
