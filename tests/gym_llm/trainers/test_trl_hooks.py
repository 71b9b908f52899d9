"""The hooks for TRL without TRL: datasets, tools as functions, verifiers over completions."""

import asyncio
from typing import Literal

import gymnasium as gym
import pytest
from hostile import HostileActions
from testing import message, row
from transformers.utils import get_json_schema

from gym_llm import BaseTask, VerifierEnv, tool
from gym_llm.errors import DataError, JudgeError
from gym_llm.trainers.trl import EnvironmentFactory, RewardFunc, RolloutFunc


class Kitchen(VerifierEnv):
    """Tools of every type that a model can be asked for."""

    def verify(self, task, episode):
        return 1.0

    @tool
    def cook(
        self,
        state,
        dish: str,
        guests: int,
        hours: float,
        spicy: bool,
        style: Literal["thai", "home"],
        extras: list[str],
        oven: dict,
        wine: str | None,
        course: int = 2,
    ) -> str:
        """Cook a dish
        for guests.

        Args:
            dish: What to cook,
                in one word.
            guests: How many eat.
            hours: How long.
            spicy: Whether it is hot.
            style: In which style.
            extras: What else.
            oven: The oven's settings.
            wine: What to drink.
            course: Which course.
        """
        return f"{dish} for {guests}, course {course}"

    @tool
    def clean(self) -> str:
        """Clean up."""
        return "clean"


class Judge(VerifierEnv):
    """A judge who waits for the others, if there are to be others."""

    others = None

    async def verify(self, task, episode):
        if self.others is not None:
            async with asyncio.timeout(60):
                await self.others.wait()
        return float(episode.answer == "right")

    @tool
    def look(self) -> str:
        """Look it up."""
        return "right"


class Answering(VerifierEnv):
    """A user who answers."""

    def user_turn(self, task, episode):
        return "Go on." if episode.turn < 2 else None

    def verify(self, task, episode):
        return float(episode.turn)

    @tool
    def look(self) -> str:
        """Look it up."""
        return "right"


class Named(VerifierEnv):
    """Wants a column of its own."""

    class Task(BaseTask):
        secret: str

    def verify(self, task, episode):
        return float(task.secret in episode.answer)


class Broken(VerifierEnv):
    """Fails in its verifier or its set-up, if the task says so."""

    class Task(BaseTask):
        fails: str = ""

    def setup(self, task):
        if task.fails == "setup":
            raise OSError("no sandbox")

    def verify(self, task, episode):
        if task.fails == "verify":
            raise OSError("no judge")
        return 1.0

    @tool
    def look(self) -> str:
        """Look it up."""
        return "right"


class Restarting(VerifierEnv):
    """Has a tool whose name TRL calls itself."""

    def verify(self, task, episode):
        return 1.0

    @tool
    def reset(self, hard: bool) -> str:  # type: ignore[override]
        """Start again.

        Args:
            hard: Whether all is lost.
        """
        return "fresh"


for env_class in (Kitchen, Judge, Answering, Named, Broken, Restarting):
    gym.register(f"trl_hooks/{env_class.__name__}-v0", env_class)


# -- datasets ----------------------------------------------------------------------------------------------------------


def test_dataset_rows_are_chat_prompts_that_say_which_task_they_are():
    tasks = [row("Warm?"), row("Cold?"), row("Wet?")]
    rows = RewardFunc("trl_hooks/Judge-v0", tasks=tasks).dataset(2)
    assert rows.column_names == ["prompt", "task_index"]
    assert rows["task_index"] == [0, 1]
    assert rows[1]["prompt"] == [{"role": "user", "content": "Cold?", "task_index": 1}]


def test_another_seed_gives_other_generated_tasks():
    arithmetic = RewardFunc("gym_llm/Arithmetic-v0")
    train, held_out = arithmetic.dataset(32), arithmetic.dataset(32, seed=1)
    assert not set(train["task_index"]) & set(held_out["task_index"])
    assert arithmetic.dataset(32).to_list() == train.to_list()
    env = gym.make("gym_llm/Arithmetic-v0")
    for prompt in held_out["prompt"]:
        observation, _ = env.reset(options={"task_index": prompt[0]["task_index"]})
        assert observation["input"][0]["content"] == prompt[0]["content"]


def test_a_system_prompt_comes_first_and_text_parts_are_joined():
    parts = [{"type": "input_text", "text": "2 + "}, {"type": "input_text", "text": "2?"}]
    task = {"responses_create_params": {"instructions": "Be brief.", "input": [{"role": "user", "content": parts}]}}
    (prompt,) = RewardFunc("trl_hooks/Judge-v0", tasks=[task]).dataset()["prompt"]
    assert [(said["role"], said["content"]) for said in prompt] == [("system", "Be brief."), ("user", "2 + 2?")]


def test_images_are_refused():
    parts = [{"type": "input_image", "image_url": "data:image/png;base64,AA=="}]
    task = {"responses_create_params": {"input": [{"role": "user", "content": parts}]}}
    with pytest.raises(ValueError, match="images or files"):
        RewardFunc("trl_hooks/Judge-v0", tasks=[task]).dataset()


def test_a_task_that_asks_nothing_is_refused():
    with pytest.raises(ValueError, match="Task 0 of trl_hooks/Judge-v0 has an empty input"):
        RewardFunc("trl_hooks/Judge-v0", tasks=[{"responses_create_params": {"input": []}}]).dataset()


# -- tools as functions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env_id", ["gym_llm/Weather-v0", "gym_llm/Counter-v0"])
def test_transformers_reads_the_schema_that_the_environment_gives(env_id):
    factory = EnvironmentFactory(env_id)
    environment = factory()
    for schema in factory.verifier.tool_schemas():
        shown = get_json_schema(getattr(environment, schema["name"]))["function"]
        assert (shown["name"], shown["description"]) == (schema["name"], schema["description"])
        assert shown["parameters"]["properties"] == schema["parameters"]["properties"]
        assert shown["parameters"].get("required", []) == schema["parameters"]["required"]


def test_every_type_has_a_schema():
    environment = EnvironmentFactory("trl_hooks/Kitchen-v0", tasks=[row()])()
    shown = get_json_schema(environment.cook)["function"]["parameters"]
    kinds = {name: schema.get("type") for name, schema in shown["properties"].items()}
    assert kinds == {
        "dish": "string",
        "guests": "integer",
        "hours": "number",
        "spicy": "boolean",
        "style": "string",
        "extras": "array",
        "oven": "object",
        "wine": "string",
        "course": "integer",
    }
    assert shown["properties"]["style"]["enum"] == ["thai", "home"]
    assert shown["properties"]["extras"]["items"] == {"type": "string"}
    assert shown["properties"]["wine"]["nullable"] is True
    assert shown["properties"]["dish"]["description"] == "What to cook, in one word."
    assert "course" not in shown["required"] and len(shown["required"]) == 8


def test_calls_are_checked_and_answered_as_in_an_episode():
    environment = EnvironmentFactory("trl_hooks/Kitchen-v0", tasks=[row()])()
    environment.reset(prompt=[], task_index=0)
    assert environment.clean() == "clean"
    assert "should be a valid integer" in environment.cook(dish="soup", guests="many")
    given = {"dish": "soup", "guests": 2, "hours": 1.5, "spicy": True, "style": "thai", "extras": []}
    assert environment.cook(**given, oven={}, wine=None) == "soup for 2, course 2"


def test_an_episode_that_is_over_answers_no_call_and_is_scored_once():
    factory = EnvironmentFactory("trl_hooks/Judge-v0", tasks=[row()], env_kwargs={"max_turns": 2})
    environment = factory()
    environment.reset(task_index=0)
    assert [environment.look() for _ in range(3)] == ["right", "right", '{"error":"The episode is over."}']
    assert factory.reward(completions=[[{"role": "assistant", "content": "right"}]], environments=[environment]) == [
        0.0
    ]


def test_judges_of_a_batch_work_at_the_same_time(monkeypatch):
    monkeypatch.setattr(Judge, "others", asyncio.Barrier(32))
    factory = EnvironmentFactory("trl_hooks/Judge-v0", tasks=[row()])
    environments = [factory() for _ in range(32)]
    for environment in environments:
        environment.reset(task_index=0)
        environment.look()
    said = [[{"role": "assistant", "content": "right" if n % 2 else "wrong"}] for n in range(32)]
    assert factory.reward(completions=said, environments=environments) == [float(n % 2) for n in range(32)]


def test_an_answer_is_read_without_its_thinking_and_a_call_that_was_not_made_is_no_answer():
    factory = EnvironmentFactory("trl_hooks/Judge-v0", tasks=[row()])
    call = {"type": "function", "function": {"name": "look", "arguments": {}}}
    for messages, reward in [
        ([{"role": "assistant", "content": "<think>hm</think>right"}], 1.0),
        ([{"role": "assistant", "content": "right", "tool_calls": [call]}], 1.0),
        ([{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "right"}], 0.0),
        ([], 0.0),
    ]:
        environment = factory()
        environment.reset(task_index=0)
        assert factory.reward(completions=[messages], environments=[environment]) == [reward], messages


@pytest.mark.parametrize(
    ("env_id", "reason"),
    [
        ("gym_llm/Arithmetic-v0", "has no tools"),
        ("trl_hooks/Answering-v0", "answers as the user"),
        ("trl_hooks/Restarting-v0", "has a tool reset, a name that is TRL's own"),
    ],
)
def test_environments_that_trl_cannot_play_are_refused(env_id, reason):
    with pytest.raises(ValueError, match=reason):
        EnvironmentFactory(env_id, tasks=None if "Arith" in env_id else [row()])


@pytest.mark.parametrize(("max_turns", "looks"), [(None, 0), (None, 1), (1, 1)])
def test_an_episode_that_fails_has_no_reward_and_leaves_the_others_theirs(max_turns, looks, caplog):
    tasks = [row(fails=""), row(fails="verify"), row(fails="setup")]
    factory = EnvironmentFactory("trl_hooks/Broken-v0", tasks=tasks, env_kwargs={"max_turns": max_turns})
    environments = [factory() for _ in tasks]
    for index, environment in enumerate(environments):
        environment.reset(task_index=index)
        for _ in range(looks):
            environment.look()
    said = [[{"role": "assistant", "content": "right"}]] * 3
    assert factory.reward(completions=said, environments=environments) == [1.0, None, None]
    assert "2 of 3 episodes failed, the first one so: OSError: no judge" in caplog.text
    environments[2].reset(task_index=0)
    assert environments[2].look() == "right"


def test_tasks_with_tools_of_their_own_are_refused():
    own = row()
    own["responses_create_params"]["tools"] = [{"type": "function", "name": "other", "parameters": {}}]
    with pytest.raises(ValueError, match="has its own tools"):
        EnvironmentFactory("trl_hooks/Judge-v0", tasks=[row(), own]).dataset()


# -- verifiers over completions ----------------------------------------------------------------------------------------


def test_texts_and_messages_are_scored_by_task_index():
    arithmetic = RewardFunc("gym_llm/Arithmetic-v0")
    answers = []
    for index in (3, 3, 9):
        env = gym.make("gym_llm/Arithmetic-v0")
        env.reset(options={"task_index": index})
        answers.append(env.unwrapped.episode.row["expected_answer"])
    said = [f"<think>x</think>\\boxed{{{answers[0]}}}", "\\boxed{none}", f"\\boxed{{{answers[2]}}}"]
    prompts = [""] * 3
    assert arithmetic(prompts, said, task_index=[3, 3, 9], trainer_state=None) == [1.0, 0.0, 1.0]
    as_messages = [[{"role": "assistant", "content": text}] for text in said]
    assert arithmetic(prompts, as_messages, task_index=[3, 3, 9], completion_ids=[[1]] * 3) == [1.0, 0.0, 1.0]
    assert arithmetic.__name__ == "Arithmetic"


def test_columns_of_any_dataset_make_the_task():
    named = RewardFunc("trl_hooks/Named-v0")
    prompts = [[{"role": "user", "content": "Guess."}], "Guess."]
    assert named(prompts, ["it is a", "it is a"], secret=["a", "b"], log_metric=None) == [1.0, 0.0]
    with pytest.raises(DataError, match="secret"):
        named(prompts, ["it is a", "it is a"], other=["a", "b"])


def test_math_is_scored_by_the_columns_of_a_math_dataset():
    math = RewardFunc("gym_llm/MathVerify-v0")
    said = ["\\boxed{\\frac{1}{2}}", "\\boxed{2}", "no idea"]
    assert math(["1/2?"] * 3, said, expected_answer=["0.5", "0.5", "0.5"]) == [1.0, 0.0, 0.0]


def test_tool_calls_of_a_conversation_are_made_again_and_a_conversation_that_ends_early_is_scored():
    counter = RewardFunc("trl_hooks/Judge-v0", tasks=[row()])
    call = {"type": "function", "function": {"name": "look", "arguments": {}}}
    whole = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "look", "content": "right"},
        {"role": "assistant", "content": "right"},
    ]
    assert counter(["", ""], [whole, whole[:2]], task_index=[0, 0]) == [1.0, 0.0]


def test_what_a_model_writes_never_raises():
    judge = RewardFunc("trl_hooks/Judge-v0", tasks=[row()])
    factory = EnvironmentFactory("trl_hooks/Judge-v0", tasks=[row()])
    texts = [HostileActions(Judge, seed).text() for seed in range(200)]
    odd = [text if n % 2 else {"function": {"name": 5, "arguments": text}} for n, text in enumerate(texts)]
    said = [
        [{"role": "assistant", "content": text, "tool_calls": [call]}] for text, call in zip(texts, odd, strict=True)
    ]
    for completions in (texts, [[{"role": "assistant", "content": text}] for text in texts], said):
        assert judge([""] * 200, completions, task_index=[0] * 200) == [0.0] * 200
    environments = [factory() for _ in texts]
    for environment in environments:
        environment.reset(task_index=0)
    assert factory.reward(completions=said, environments=environments) == [0.0] * 200


def test_calls_without_an_id_get_one():
    judge = RewardFunc("trl_hooks/Judge-v0", tasks=[row()])
    call = {"id": None, "type": "function", "function": {"name": "look", "arguments": {}}}
    said = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "assistant", "content": "right"}]
    assert judge([""], [said], task_index=[0]) == [1.0]


# -- rollout_func's own arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"engine": "http://localhost:8000/v1"}, "trainer's own model"),
        ({"engine_options": {"history": "template"}}, "history='append'"),
        ({"env_wrappers": []}, "TokenIdTracking"),
        ({"concurrency": 0}, "concurrency is"),
        ({"engine_options": {"threads": 0}}, "threads is a whole number"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments, reason):
    with pytest.raises(ValueError, match=reason):
        RolloutFunc("gym_llm/Arithmetic-v0", **arguments)


def test_an_engine_option_that_does_not_exist_is_refused_at_once():
    with pytest.raises(TypeError, match="no option 'thread'"):
        RolloutFunc("gym_llm/Arithmetic-v0", engine_options={"thread": 1})


def test_an_unknown_environment_is_refused_at_once():
    with pytest.raises(gym.error.Error, match="Nowhere"):
        RolloutFunc("gym_llm/Nowhere-v0")


def test_the_reward_is_only_for_its_own_rollouts():
    with pytest.raises(ValueError, match="works with rollout_func="):
        RolloutFunc("gym_llm/Arithmetic-v0").reward(prompts=[], completions=[])
    with pytest.raises(ValueError, match="works with environment_factory="):
        EnvironmentFactory("gym_llm/Weather-v0").reward(completions=message("x"))


class Flaky(VerifierEnv):
    """Its judge is down at first."""

    down = True

    def user_turn(self, task, episode):
        return "Are you sure?" if episode.turn == 1 else None

    def verify(self, task, episode):
        if self.down:
            self.down = False
            raise JudgeError("down")
        return float(episode.answer == "still 4")


def test_a_completion_that_is_verified_again_is_verified_whole():
    gym.register("Test/Flaky-v0", entry_point=Flaky)
    try:
        reward = RewardFunc("Test/Flaky-v0", tasks=[row()])
        turns = [{"role": "assistant", "content": text} for text in ("4", "still 4")]
        assert reward([[]], [turns], task_index=[0]) == [1.0]
    finally:
        del gym.registry["Test/Flaky-v0"]
