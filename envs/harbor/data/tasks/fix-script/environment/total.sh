#!/bin/bash
# Prints the sum of the second column.
total=0
tail -n +1 "$1" | while read name amount; do
    total=$((total + amount))
done
echo "$total"
