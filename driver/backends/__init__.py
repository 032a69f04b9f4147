"""What backends share: running a program, waiting out a provider's faults, reading what it says."""
