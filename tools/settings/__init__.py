"""Defines, loads and checks the settings."""
