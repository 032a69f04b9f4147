"""Adapters of agent programs: start them, parse their output, classify their failures."""
