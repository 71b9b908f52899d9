#!/bin/bash
cat > /app/top.sh <<'END'
tr 'A-Z' 'a-z' | tr -cs 'a-z' '\n' | grep . | LC_ALL=C sort | uniq -c | LC_ALL=C sort -k1,1nr -k2,2 | head -n 5 |
    awk '{ print $2, $1 }'
END
