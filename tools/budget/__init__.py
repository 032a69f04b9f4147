"""Reservations, ceilings and charges."""
