"""What an author writes an environment with, and what drives it."""
