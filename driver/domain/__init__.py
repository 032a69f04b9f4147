"""The nouns: work item, change, test run, attempt, verdict, review, receipt. Pure."""
