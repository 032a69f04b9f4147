"""One item through its phases, and the point from which a killed one resumes."""
