"""Market-by-price data: a book of quantities kept from messages, and its recording."""
