"""Orders of a seeded flow or a written script, matched one by one and told as steps."""
