"""Script: what a model says so that a harness plays given actions, in the harness's own words."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from gym_llm.agents.mailbox import item_text
from gym_llm.types import Item

_FINISH = {"final_answer": "answer", "attempt_completion": "result", "finish": "message", "submit_and_exit": "result"}
_SHELLS = ("bash", "shell")
_OWN_SHELLS = ("Bash", "bash", "exec_command", "run_commands", "run_shell_command", "exec", "terminal")
_TOOLS = re.compile(r"<tools>\n(.*?)\n</tools>", re.DOTALL)


class Script:
    """The actions of one task, and what a harness's model says to play them.

    Args:
        turns: The turns of the right answer: calls, then a text.
        has_tools: Whether the harness offers tools to its model.
        in_shell: Whether the calls are commands, which the harness's own shell runs if it has one.
    """

    def __init__(self, turns: list[list[Item]], has_tools: bool, *, in_shell: bool = False) -> None:
        self.calls = [item for turn in turns for item in turn if item["type"] == "function_call"]
        self.answer = "".join(item_text(item) for item in turns[-1] if item["type"] == "message")
        self._has_tools, self._in_shell = has_tools, in_shell

    def say(self, prompt: str) -> str:
        """Return the model's answer to a prompt."""
        if '"keystrokes"' in prompt:
            return self._keystrokes(prompt)
        offered = _TOOLS.search(prompt)
        tools = [tool.get("function", tool) for tool in _json_lines(offered[1])] if offered else []
        names = [str(tool.get("name")) for tool in tools]
        if self._has_tools and not names:  # a title, or another errand of the harness
            return "A task"
        done = self._done(prompt[offered.end() :] if offered else prompt)
        if done < len(self.calls):
            call = self.calls[done]
            if self._in_shell:
                return _call(*self._in_own_shell(done, tools))
            return _call(*self._in_words(call["name"], json.loads(call["arguments"]), names))
        for name, argument in _FINISH.items():
            if name in names:
                return _call(name, {argument: self.answer})
        if names == ["bash"]:  # mini-swe-agent: what this command prints is the answer
            text = shlex.quote(self.answer)
            return _call("bash", {"command": f"printf 'COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\\n%s' {text}"})
        return self.answer

    def _keystrokes(self, prompt: str) -> str:
        """Return what Terminus 2 types: a call in its shell, or its answer into a file and that it has finished."""
        done = self._done(prompt) if self._in_shell else prompt.count('"keystrokes": "gym-tool ')
        if is_complete := done == len(self.calls):
            typed = f"printf %s {shlex.quote(self.answer)} > answer.txt"
        elif self._in_shell:
            typed = self._command(done)
        else:
            call = self.calls[done]
            typed = f"gym-tool {call['name']} {shlex.quote(call['arguments'])}"
        commands = [{"keystrokes": f"{typed}\n", "duration": 3.0}]
        return json.dumps({"analysis": "", "plan": "", "commands": commands, "task_complete": is_complete})

    def _done(self, history: str) -> int:
        """Return how many of the calls are in a history: quoted names of tools, or commands of a shell."""
        if self._in_shell:
            return sum(f"# call {number}" in history for number in range(len(self.calls)))
        for number, call in enumerate(self.calls):
            name = re.escape(call["name"])
            made = len(re.findall(rf"(?:gym-tool {name} |(?<![a-z]){name}['\"])", history))
            if made <= sum(each["name"] == call["name"] for each in self.calls[:number]):
                return number
        return len(self.calls)

    def _command(self, number: int) -> str:
        """Return a command, with a last line by which a history shows that it has run."""
        return f"{json.loads(self.calls[number]['arguments'])['command'].rstrip()}\n# call {number}"

    def _in_own_shell(self, number: int, tools: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        """Return a command as a call of the harness's shell, or of the environment's tool if it has none."""
        command = self._command(number)
        offered = {str(tool.get("name")): tool.get("parameters") or {} for tool in tools}
        if (name := next((each for each in _OWN_SHELLS if each in offered), None)) is None:
            return self._in_words("shell", {"command": command, "timeout_sec": 60}, [*offered])
        fields = offered[name].get("properties", {})
        arguments: dict[str, Any] = {"commands": [command]} if "commands" in fields else {}
        if not arguments:
            arguments = {"cmd" if "cmd" in fields else "command": command}
        for field in offered[name].get("required", ()):
            arguments.setdefault(field, fields[field].get("enum", ["work on the task"])[0])
        return name, arguments

    def _in_words(self, name: str, arguments: dict[str, Any], names: list[str]) -> tuple[str, dict[str, Any]]:
        """Return a call of the environment's tool as this harness's model makes it."""
        own = [each for each in names if each == name or re.search(rf"[_.:-]{re.escape(name)}$", each)]
        if own:
            return min(own, key=len), arguments
        shell = next((each for each in _SHELLS if each in names), "bash")
        return shell, {"command": f"gym-tool {name} {shlex.quote(json.dumps(arguments))}"}


def calls_in(turn: list[Item]) -> int:
    """Return the number of calls in a turn."""
    return sum(item["type"] == "function_call" for item in turn)


def _json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def _call(name: str, arguments: dict[str, Any]) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"
