"""The taskset of verifiers that shared vectors name `demo-v1`, rebuilt from its recorded episodes."""

from collections.abc import Iterator

import verifiers.v1 as vf

__all__ = ["DemoTaskset"]


class DemoData(vf.TaskData):
    answer: str = ""


class DemoTask(vf.Task[DemoData]):
    @vf.reward(weight=1.0)
    async def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.25)
    async def polite(self, trace: vf.Trace) -> float:
        return float("please" in trace.last_reply)

    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class DemoTaskset(vf.Taskset[DemoTask, vf.TasksetConfig]):
    def load(self) -> Iterator[DemoTask]:
        for n in range(12):
            data = DemoData(prompt=f"What is {n}+{n}?", system_prompt="Be brief.", answer=str(2 * n))
            yield DemoTask(data, self.config.task)
