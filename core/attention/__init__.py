"""Simulations of the attention family, one system a file."""
