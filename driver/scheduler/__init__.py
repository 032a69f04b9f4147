"""A scheduler cycle: reconcile, intake, claim, wave, tracker update, audit, checkpoint."""
