"""What only pytest and syrupy see."""
