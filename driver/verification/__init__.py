"""The runs behind a verdict: test, baseline, canary, reruns, gates."""
