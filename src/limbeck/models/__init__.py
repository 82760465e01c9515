"""What can learn."""
