"""Screens: they only compose."""
