"""Observations cross as deltas and come out equal."""

import copy
import pickle

from hypothesis import given
from hypothesis import strategies as st

from gym_llm.rollouts.ray.codec import Receiver, Sender

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
