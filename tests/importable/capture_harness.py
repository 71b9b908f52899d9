"""A harness for TRL's worker: an agent that asks a captured model twice, and is scored at random."""

from __future__ import annotations

import json
import urllib.request

import openai
from openenv.core.harness import ResourceSession, ResourceSessionFactory, TrainingTrace, VerifyResult


class Session(ResourceSession):
    """One episode: the agent owns its loop, and the capture server knows what the model said."""

    def __init__(self, url, seed, episode_id, sampling):
        self.url = url
        self.question = f"What is {seed} + {seed}?"
        self.reward = float(int(episode_id, 16) % 2)  # theirs are random
        opened = {"sampling": sampling, "purpose": "train", "metadata": {"episode_id": episode_id}}
        self.session = self.ask("POST", "/sessions", opened)
        assert self.session["rollout_type"] == "train"

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

    def wait_for_completion(self, timeout_s=None):
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.session["session_id"])
        said = [{"role": "user", "content": self.question}]
        for _ in range(2):
            message = client.chat.completions.create(model="any", messages=said, temperature=0.1).choices[0].message
            said += [message.model_dump(exclude_none=True), {"role": "user", "content": "Are you sure? Say it again."}]
        return 0

    def fetch_training_trace(self):
        entries = self.ask("GET", f"/sessions/{self.session['session_id']}/trace_entries")["entries"]
        return TrainingTrace.from_entries(entries)

    def verify(self, transcript, final_state=None):
        return VerifyResult(env_reward=self.reward, done=True)

    def close(self):
        """The test looks at the captured session: it stays."""

    def initial_messages(self):
        return []

    def list_tools(self):
        return []

    def call_tool(self, name, arguments):
        raise NotImplementedError


class Factory(ResourceSessionFactory):
    """Makes them."""

    def __init__(self, url, sampling):
        self.url, self.sampling = url, sampling

    def create(self, task, seed=None, episode_id=None):
        return Session(self.url, seed, episode_id, self.sampling)
