"""A harness for TRL's worker: an agent that asks a captured model twice, and one of our environments that scores it."""

from __future__ import annotations

import json
import urllib.request

import gymnasium as gym
import openai
from openenv.core.harness import ResourceSession, ResourceSessionFactory, TrainingTrace, VerifyResult

from gym_llm import VerifierEnv


class Parity(VerifierEnv):
    """An even number of characters is right: half of what a model says that was never trained on it."""

    def generate(self, rng):
        return {"responses_create_params": {"input": f"What is {rng.integers(100)} + {rng.integers(100)}?"}}

    def verify(self, task, episode):
        return float(len(episode.answer) % 2 == 0)


gym.register("tests/Parity-v0", Parity, disable_env_checker=True)


class Session(ResourceSession):
    """One episode: the agent owns its loop, and the capture server knows what the model said."""

    def __init__(self, url, seed, episode_id, sampling):
        self.url = url
        self.env = gym.make("tests/Parity-v0")
        self.request, _ = self.env.reset(options={"task_index": seed})
        opened = {"sampling": sampling, "purpose": "train", "metadata": {"episode_id": episode_id}}
        self.session = self.ask("POST", "/sessions", opened)
        assert self.session["rollout_type"] == "train"
        self.answer = ""

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

    def wait_for_completion(self, timeout_s=None):
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=self.session["session_id"])
        said = [{"role": item["role"], "content": item["content"]} for item in self.request["input"]]
        for _ in range(2):
            message = client.chat.completions.create(model="any", messages=said, temperature=0.1).choices[0].message
            self.answer = self.answer or message.content or ""  # the first
            said += [message.model_dump(exclude_none=True), {"role": "user", "content": "Are you sure? Say it again."}]
        return 0

    def fetch_training_trace(self):
        entries = self.ask("GET", f"/sessions/{self.session['session_id']}/trace_entries")["entries"]
        return TrainingTrace.from_entries(entries)

    def verify(self, transcript, final_state=None):
        _, reward, *_ = self.env.step([{"type": "message", "role": "assistant", "content": self.answer}])
        return VerifyResult(env_reward=float(reward), done=True)

    def close(self):
        self.env.close()

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
