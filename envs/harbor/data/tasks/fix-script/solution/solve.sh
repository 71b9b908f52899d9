#!/bin/bash
cat > /app/total.sh <<'END'
#!/bin/bash
# Prints the sum of the second column.
total=0
while IFS=, read -r name amount || [ -n "$name" ]; do
    [ -n "$amount" ] && total=$((total + amount))
done < <(tail -n +2 "$1")
echo "$total"
END
