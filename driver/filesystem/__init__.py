"""Folders and files that other programs may have written."""
