"""The style of tests: assertions, neighbours in a file, selection by words. Pure."""
