"""Notices of the end of a wave, to a program or a webhook of the user."""
