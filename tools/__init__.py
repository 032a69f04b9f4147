"""The operator's instruments: settings, the halt switch, the cost ceiling."""
