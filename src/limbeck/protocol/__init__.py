"""What may be said, and by whom."""
