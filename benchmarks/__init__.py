"""What recording costs: ratios, each measured in one run. ``make bench`` prints them all."""
