"""A wave: plan, pre-flight, open, run the items, conclude, report."""
