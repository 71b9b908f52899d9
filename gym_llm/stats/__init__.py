"""Statistics of episodes: intervals, pass@k, paired tests."""
