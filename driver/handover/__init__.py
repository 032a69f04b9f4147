"""Hands unshipped work over to other machines that share the store, and takes theirs over."""
