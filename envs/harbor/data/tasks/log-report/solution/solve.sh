#!/bin/bash
python3 - <<'END'
import collections
import json
import pathlib

rows = []
for path in sorted(pathlib.Path("/srv/logs").iterdir()):
    for line in path.read_text().splitlines():
        fields = line.split()
        if len(fields) == 5 and fields[3].isdigit() and fields[4].isdigit():
            rows.append((fields[2], int(fields[3]), int(fields[4])))
report = {
    "requests": len(rows),
    "errors": sum(status >= 500 for _, status, _ in rows),
    "slowest": max(rows, key=lambda row: row[2])[0],
    "by_path": collections.Counter(path for path, _, _ in rows),
}
pathlib.Path("/app/report.json").write_text(json.dumps(report))
END
