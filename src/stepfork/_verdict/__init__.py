"""Judges a replay: what differs from the accepted behaviour, and whether that is green."""
