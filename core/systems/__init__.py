"""Simulations of the systems family, one system a file."""
