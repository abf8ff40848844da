"""A customer-service agent in the manner of tau-bench; a recorded run can play its model, user and tools."""
