"""Simulations of the markets family, one system a file."""
