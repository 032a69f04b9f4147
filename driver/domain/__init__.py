"""The data types: work item, change, test run, attempt, verdict, review, receipt. Pure."""
