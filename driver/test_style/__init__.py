"""The style and the settings of tests: assertions, neighbours, selection by words. Pure."""
