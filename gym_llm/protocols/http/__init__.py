"""The base of all HTTP servers."""
