"""Exit codes that scripts rely on."""

OK = 0
FAILED = 1
"""A check or an expectation did not hold."""
BAD_INPUT = 2
INTERNAL = 3
INTERRUPTED = 130
