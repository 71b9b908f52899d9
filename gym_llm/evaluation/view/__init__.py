"""Looking at rollouts: an index of each file, a local server for the browser, and pages that stand alone."""
