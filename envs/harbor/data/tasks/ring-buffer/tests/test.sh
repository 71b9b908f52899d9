#!/bin/bash
# Reward 1 if it builds from the sources, with another main program, too, and the buffer does what it should.
cd /app || exit 1
ok=1
rm -f ring *.o
timeout 60 python3 -I /tests/apart.py /app:/tmp make || ok=0
check() { [ "$(printf "$2" | timeout 10 python3 -I /tests/apart.py /tmp ./ring "$1")" = "$(printf "$3")" ] || { echo "wrong: $1 $2"; ok=0; }; }
check 2 'pop\npush 1\npush 2\npush 3\nsize\npop\npop\npop\n' 'empty\n2\n2\n3\nempty'
check 1 'push -5\npush 6\npop\nsize\n' '6\n0'
check 3 'push 1\npop\npush 2\npush 3\npush 4\npop\npush 5\npush 6\npop\npop\npop\npop\n' '1\n2\n4\n5\n6\nempty'
many=$(for i in $(seq 1 500); do printf 'push %d\\n' "$i"; done)
check 100 "${many}size\npop\n" '100\n401'
cp /tests/other_main.c /tmp/other_main.c
gcc -I /app -o /tmp/other /tmp/other_main.c ring.c && timeout 10 python3 -I /tests/apart.py /tmp /tmp/other || { echo "its functions are wrong"; ok=0; }
echo "$ok" > /logs/verifier/reward.txt
