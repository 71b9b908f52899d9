#!/bin/bash
# Reward 1 if the script is right on the sample and on files that it has not seen.
files=/tmp/verifier.$$
mkdir -p "$files"
printf 'name,amount\na,1\nb b b,2\n\nc,-5\n' > "$files/1"
printf 'name,amount\n' > "$files/2"
{ echo name,amount; for i in $(seq 1 200); do echo "item $i,$i"; done; } > "$files/3"
printf 'name,amount\nlast line without an end,12' > "$files/4"
ok=1
check() { [ "$(timeout 20 python3 -I /tests/apart.py /tmp bash /app/total.sh "$1")" = "$2" ] || { echo "$1 should give $2"; ok=0; }; }
check /app/sample.csv 37
check "$files/1" -2
check "$files/2" 0
check "$files/3" 20100
check "$files/4" 12
echo "$ok" > /logs/verifier/reward.txt
