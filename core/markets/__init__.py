"""Simulations of the markets family: each system's file, what all of them share, and a folder for every subject.

From the bottom up: `kernels` and `readers`; `matching` and `engine`; `story`, `stream`, `events`, `depth` and `lobster`, each with
a recording of its own; `signing` and `doctor`. A folder imports only from those named before it; `open_file` picks one for a file.
"""
