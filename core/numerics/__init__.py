"""Simulations of the numerics family, one system a file."""
