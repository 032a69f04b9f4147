"""What a backend is: contract, faults, throttle, models, usage."""
