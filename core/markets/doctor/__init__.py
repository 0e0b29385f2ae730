"""The data doctor: what is wrong with a market data file, format by format."""
