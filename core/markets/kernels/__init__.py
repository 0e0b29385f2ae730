"""What compiled books are made of: numba's settings and cache, rows, hash tables, pages of prices."""
