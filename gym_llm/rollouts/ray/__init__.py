"""Shards and engines in other processes and on other machines, over Ray."""
