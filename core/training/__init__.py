"""Simulations of the training family, one system a file."""
