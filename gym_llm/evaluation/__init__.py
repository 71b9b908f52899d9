"""From records to a decision: evaluations, comparisons, re-scoring, the viewer, exports and trackers."""
