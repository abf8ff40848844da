"""Runs all benchmarks and prints their tables."""

from benchmarks import growth, overhead, recording, shares

for benchmark in (recording, shares, growth, overhead):
    benchmark.main()
