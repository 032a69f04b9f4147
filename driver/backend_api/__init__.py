"""The contract of a backend, with its faults, throttle, models and usage."""
