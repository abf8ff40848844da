"""Two plain values side by side: what differs, and what a tolerance lets pass."""
