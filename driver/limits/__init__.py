"""Admission control (halt, signals, backend), reservations and sums of usage."""
