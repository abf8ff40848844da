"""Drives recorded runs of tau-bench through the whole road, as a real agent in a project of its own."""
