"""Records of episodes: one maker, one reader, files."""
