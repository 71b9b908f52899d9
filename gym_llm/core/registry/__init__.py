"""Ids of environments, and the classes behind them."""
