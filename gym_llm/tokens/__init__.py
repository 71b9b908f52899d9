"""Text and items to token ids, and back."""
