"""The explorer: plays recordings in a terminal, and runs them without one."""
