"""LOBSTER days: messages beside the rows of an orderbook file, and their recording."""
