"""Simulations of the moe family, one system a file."""
