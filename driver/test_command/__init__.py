"""What a test command says, and what it starts. Pure."""
