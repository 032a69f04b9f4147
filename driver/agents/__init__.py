"""One dispatch of a builder or a reviewer, and what came of it."""
