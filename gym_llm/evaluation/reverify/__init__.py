"""Scoring recorded episodes again."""
