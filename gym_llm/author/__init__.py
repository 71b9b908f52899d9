"""Tools for authors of environments."""
