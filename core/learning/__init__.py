"""Simulations of the learning family, one system a file."""
