"""A server of the Open Reward Standard, with openreward's own classes: `python ors_demo.py PORT`."""

import sys

from openreward.environments import Environment, ImageBlock, Server, Split, TextBlock, ToolOutput, terminal, tool
from pydantic import BaseModel


class Guess(BaseModel):
    number: int


class Answer(BaseModel):
    text: str


class Numbers(Environment):
    """A number is guessed, with a tenth of a point for each guess, and told at the end."""

    @classmethod
    def list_splits(cls):
        return [Split(name="hard", type="test"), Split(name="easy", type="train")]

    @classmethod
    def list_tasks(cls, split):
        return [{"number": number} for number in range(3 if split == "easy" else 50)]

    def get_prompt(self):
        return [
            TextBlock(text="Which number? \u2028 It is small."),
            ImageBlock(data="R0lGODlhAQABAAAAACw=", mimeType="image/gif"),
        ]

    @tool
    async def guess(self, arguments: Guess) -> ToolOutput:
        """Guess the number."""
        told = "higher" if arguments.number < self.task_spec["number"] else "no higher"
        return ToolOutput(blocks=[TextBlock(text=told + " " * 9_000 + ".")], reward=0.1)

    @tool
    async def fail(self) -> ToolOutput:
        """Fail."""
        raise RuntimeError("out of numbers")

    @tool
    async def give_up(self) -> ToolOutput:
        """Give up."""
        return ToolOutput(blocks=[TextBlock(text="A pity.")], finished=True)

    @terminal
    @tool
    async def tell(self, arguments: Answer) -> ToolOutput:
        """Tell the number."""
        return ToolOutput(blocks=[], reward=float(arguments.text == str(self.task_spec["number"])), finished=True)


class Untold(Numbers):
    """The same without an answer in words."""

    tell = None


if __name__ == "__main__":
    Server([Numbers, Untold]).run(host="127.0.0.1", port=int(sys.argv[1]))
