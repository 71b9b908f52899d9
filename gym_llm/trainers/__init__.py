"""Adapters that plug environments into the trainers people use, one module per trainer; import the one you need."""
