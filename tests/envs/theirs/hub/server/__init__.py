"""The servers."""
