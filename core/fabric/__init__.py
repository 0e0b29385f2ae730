"""Ranks that hold real tensors and talk."""
