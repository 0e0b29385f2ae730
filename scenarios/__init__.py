"""Scenario files, by family: a question, parameters, variants, the numbers it must show."""
