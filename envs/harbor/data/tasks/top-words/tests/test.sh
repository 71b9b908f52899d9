#!/bin/bash
# Reward 1 if the script is right on every text; `texts_right` says on how many it is.
right=0
check() {
    found=$(timeout 20 python3 -I /tests/apart.py /tmp bash /app/top.sh 2> /dev/null < "$1")
    [ "$found" = "$2" ] && right=$((right + 1)) || echo "$1: $found"
}
check /app/text.txt $'the 5\na 3\nand 2\ncat 2\nday 2'
echo 'x-y X_y "z"' > /tmp/1.$$
check /tmp/1.$$ $'x 2\ny 2\nz 1'
printf 'b a\nB A b' > /tmp/2.$$
check /tmp/2.$$ $'b 3\na 2'
for i in $(seq 300); do echo "w one two One"; done > /tmp/3.$$
check /tmp/3.$$ $'one 600\ntwo 300\nw 300'
[ "$right" = 4 ] && reward=1 || reward=0
printf '{"reward": %d, "texts_right": %d}\n' "$reward" "$right" > /logs/verifier/reward.json
