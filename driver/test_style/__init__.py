"""How tests are written: assertions, neighbours in a file, selection by words. Pure."""
