#!/usr/bin/env python3
"""Call a tool of the environment from a shell: `gym-tool NAME '{"argument": 1}'`; without a name, list the tools."""

import json
import os
import sys
import urllib.error
import urllib.request


def main() -> None:
    """Call the tool, or list all."""
    if len(sys.argv) < 2:
        with open(os.environ["GYM_LLM_TASK"], encoding="utf-8") as task:
            print(json.dumps(json.load(task)["tools"], indent=1))
        return
    name, arguments = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else "{}")
    url = f"{os.environ['GYM_LLM_TOOLS_URL']}/" + ("submit" if name == "submit" else f"tools/{name}")
    request = urllib.request.Request(url, arguments.encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as answer:
            said = json.load(answer)
    except urllib.error.HTTPError as error:
        said = json.loads(error.read() or b"{}")
    print(said.get("output") or said.get("message") or said.get("error") or "The episode is over.")


main()
