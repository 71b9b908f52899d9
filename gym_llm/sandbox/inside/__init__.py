"""What runs inside a sandbox: the standard library only, from Python 3.9 on, for any interpreter.

`server` starts a `supervisor` in namespaces of its own for each run, and that starts the `program`. Only the program's
process runs code that a model wrote; it has no more rights, and shares nothing that is written with the others.
"""
