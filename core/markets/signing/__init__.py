"""Who was the aggressor: tapes of everything that moved a mid, rules that guess, and the split by cause."""
