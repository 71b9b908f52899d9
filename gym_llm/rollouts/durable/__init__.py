"""Durable episodes: what was sampled and what the outside answered is written down before it is used."""
