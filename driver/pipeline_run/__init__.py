"""The pipeline run of an item: its phases, and the point from which a killed one resumes."""
