#!/bin/bash
# Reward 1 if the package passes the tests that it came with, and those of what was asked for.
cd /app || exit 1
ok=1
for tests in test_days test_gaps; do
    PYTHONPATH=/app timeout 60 python3 -P "/tests/$tests.py" -v || ok=0
done
echo "$ok" > /logs/verifier/reward.txt
