"""Code that runs inside a sandbox: the standard library only, from Python 3.9 on, for any interpreter.

`first_process` starts a `supervisor` in namespaces of its own for each run, and that starts the `program`. Only that
process runs code that a model wrote. It has no rights left, and shares nothing writable with the others.
"""
