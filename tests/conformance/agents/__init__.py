"""A public conformance suite for servers that capture what a model sampled for an agent; see README.md."""
