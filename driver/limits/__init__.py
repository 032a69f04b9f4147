"""Decides if a wave may continue, reserves spending, and sums usage."""
