"""What verifiers share in grading an answer."""
