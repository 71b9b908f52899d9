"""Observations cross as deltas and come out equal."""

import copy
import enum
import pickle
from collections import OrderedDict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gym_llm.rollouts.ray.codec import Receiver, Sender
from gym_llm.rollouts.ray.shard_client import pack

ITEMS = st.fixed_dictionaries({"type": st.just("message"), "content": st.text(max_size=3)})
TURNS = st.lists(
    st.tuples(st.sampled_from(["append", "cut", "edit", "fields", "new", "same", "text"]), ITEMS), max_size=12
)


def ship(sender, receiver, observation):
    packed = sender.pack(observation)
    return packed, receiver.unpack(pickle.loads(pickle.dumps(packed)))


@given(TURNS)
def test_whatever_an_environment_observes_arrives_equal(turns):
    sender, receiver = Sender(), Receiver()
    items, fields = [{"type": "message", "content": "go"}], {"tools": [{"name": "t"}]}
    for what, item in turns:
        if what == "append":
            items = [*items, item]
        elif what == "cut":
            items = items[: len(items) // 2]
        elif what == "edit" and items:
            items = [*items[:-1], item] if len(items) < 3 else [items[0], item, *items[2:]]
        elif what == "fields":
            fields = {**fields, "temperature": len(items) / 3}
        elif what == "new":
            items, fields = [item], {"tools": [item]}
        observation = "text" if what == "text" else {"input": items, **fields}
        _, arrived = ship(sender, receiver, observation)
        assert arrived == observation


def test_only_new_items_cross():
    sender, receiver = Sender(), Receiver()
    old, new, tools = {"content": "x" * 1000}, {"content": "new"}, [{"name": "tool"}]
    ship(sender, receiver, {"input": [old], "tools": tools})
    packed, arrived = ship(sender, receiver, {"input": [old, new], "tools": tools})
    assert packed == (None, 1, [new])
    assert arrived == {"input": [old, new], "tools": tools}


def test_a_changed_item_in_the_middle_is_noticed():
    sender, receiver = Sender(), Receiver()
    first, middle, last = {"n": 1}, {"n": 2}, {"n": 3}
    ship(sender, receiver, {"input": [first, middle, last]})
    _, arrived = ship(sender, receiver, {"input": [first, {"n": "changed"}, last]})
    assert arrived["input"][1] == {"n": "changed"}


def test_what_arrives_is_the_receivers_to_change():
    sender, receiver = Sender(), Receiver()
    observation = {"input": [{"n": 1}], "tools": []}
    _, arrived = ship(sender, receiver, observation)
    arrived["input"].clear()
    del arrived["tools"]
    longer = copy.copy(observation)
    longer["input"] = [*observation["input"], {"n": 2}]
    packed, arrived = ship(sender, receiver, longer)
    assert packed[1] == 1 and arrived == longer


class Says(str):
    """A text of a class that a worker cannot import."""

    def __str__(self):
        return "something else"


class Fields(dict):
    def keys(self):
        return ["other"]


class Role(enum.StrEnum):
    MODEL = "assistant"


class Answer:
    def to_dict(self):
        return {"output": [{"type": "message", "role": "assistant", "content": "Four."}]}


def types_in(value):
    yield type(value)
    if isinstance(value, (list, tuple, dict)):
        for each in value.items() if isinstance(value, dict) else value:
            yield from types_in(each)


def test_actions_cross_as_plain_data():
    class Local(int):
        pass

    class Items(list):
        pass

    item = Fields(type=Says("message"), role=Role.MODEL, content=Says("Four."), index=Local(3), score=np.float64(-0.5))
    plain = {"type": "message", "role": "assistant", "content": "Four.", "index": 3, "score": -0.5}
    actions = [Items([item]), {"output": [item], "usage": OrderedDict(a=True)}, Answer(), np.str_("text")]
    slots, orders = pickle.loads(pack([0, 1, 2, 3], [("step", action) for action in actions]))
    assert slots == [0, 1, 2, 3]
    assert orders == [
        ("step", [plain]),
        ("step", {"output": [plain], "usage": {"a": True}}),
        ("step", Answer().to_dict()),
        ("step", "text"),
    ]
    assert set(types_in(orders)) <= {list, tuple, dict, OrderedDict, str, int, float, bool}
