"""The matching engine written to be read, its reports, and a second one that checks it."""
