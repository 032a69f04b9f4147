"""Test runners: their calls, their output and their canary tests. Pure."""
