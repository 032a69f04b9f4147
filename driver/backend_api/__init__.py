"""The contract of backends: operations, faults, throttle, models and usage."""
