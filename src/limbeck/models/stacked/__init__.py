"""Many networks of one architecture trained as one program."""
