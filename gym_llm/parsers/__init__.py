"""From what a model wrote to reasoning, messages and function calls."""
