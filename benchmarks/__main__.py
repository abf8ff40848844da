"""Runs all benchmarks and prints their tables."""

from benchmarks import growth, overhead, recording

for benchmark in (recording, growth, overhead):
    benchmark.main()
