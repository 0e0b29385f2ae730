"""Readers of market data files: each turns one format into a normal form (`core.markets.readers.forms`), block by block."""
