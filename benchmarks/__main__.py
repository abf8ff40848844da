"""Runs all benchmarks and prints their tables."""

from benchmarks import growth, models, overhead, recording, shares

for benchmark in (recording, shares, growth, overhead, models):
    benchmark.main()
