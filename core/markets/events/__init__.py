"""Market-by-order data: a book with every queue kept from events, and its recording."""
