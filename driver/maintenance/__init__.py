"""Past waves: find and restore their leftovers, reclaim disk space, reproduce proofs."""
