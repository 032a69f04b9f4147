"""The command lines of the two engine programs: flags, report, summary and demo."""
