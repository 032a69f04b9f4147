"""What the usual test runners print about what they ran, one family a module. Pure."""
