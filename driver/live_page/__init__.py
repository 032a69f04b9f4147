"""The live page: a server on this machine that shows the running wave in a browser."""
