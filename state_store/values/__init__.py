"""Dataclasses and patterns that cost little until they are used."""
