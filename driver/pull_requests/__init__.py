"""Pull requests: the outbox, their text, and the forge that makes them."""
