"""What a wave shares and writes down: context, events, journal, leases."""
