"""The built-in verifiers, one folder each: its `config.yaml` says its id."""
