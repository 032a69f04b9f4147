"""What a wave remembers between processes and after a crash."""
