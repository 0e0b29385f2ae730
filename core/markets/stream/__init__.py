"""Streams of messages in a NumPy archive: read, matched by the compiled engine, recorded."""
