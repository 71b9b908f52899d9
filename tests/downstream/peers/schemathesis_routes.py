"""Ask every operation of an OpenAPI document whatever its schemas allow, and what they do not: nothing is a 5xx.

    schemathesis_routes.py DOCUMENT URL HEADERS

HEADERS is a JSON object, sent with every request. Prints how many operations and requests there were.
"""

import json
import re
import subprocess
import sys

document, url, headers = sys.argv[1:]
command = [sys.executable, "-m", "schemathesis.cli", "run", document, "--url", url, "--no-color"]
command += ["--checks", "not_a_server_error", "--max-examples", "10", "--generation-deterministic", "--max-time", "25"]
for name, value in json.loads(headers).items():
    command += ["--header", f"{name}: {value}"]
run = subprocess.run(command, capture_output=True, text=True)
assert run.returncode == 0, run.stdout[-8_000:] + run.stderr[-2_000:]
tested = re.search(r"Tested: (\d+)", run.stdout)
cases = re.search(r"(\d+) generated, (\d+) passed", run.stdout)
assert tested and cases, run.stdout
print(json.dumps({"operations": int(tested[1]), "generated": int(cases[1]), "passed": int(cases[2])}))
