"""Small helpers without knowledge of environments."""
