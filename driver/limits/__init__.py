"""Admission (halt, ceilings, backend), reservations and sums of usage."""
