"""Random conversations through Chat Completions and back, over the wire, to the character."""

import copy
import json
import random
from collections import Counter

import gymnasium as gym
import pytest

from gym_llm.protocols.chat.completions import chat_to_response, response_to_chat
from gym_llm.protocols.chat.requests import chat_to_request, request_to_chat
from gym_llm.wrappers import ReasoningParser, ToolCallParser

CONVERSATIONS = 10_000
TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
PIECES = [
    *("The", " answer", " 42", ".", " ", "  ", "\n", "\n\n", "\t", "\r\n", "\x00", "\u00a0", "\u2028", "\ufeff"),
    *(
        "é",
        "e\u0301",
        "日本",
        "👩‍👧",
        "א",
        "\ud800",
        "\ufffd",
        "<think>",
        "<tool_call>",
        "{",
        "}",
        '"',
        "\\",
        "\\n",
        "null",
    ),
]


def words(rng, least=1, most=6):
    """A text, not empty: a chat has no other sign of a message, or of reasoning, than that it says something."""
    return "".join(rng.choices(PIECES, k=rng.randint(least, most)))


def reasoning(text):
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": text}]}


def message(*parts):
    return {"type": "message", "role": "assistant", "content": list(parts)}


def said(text):
    return {"type": "output_text", "text": text, "annotations": []}


def call(rng, number):
    arguments = rng.choice(["{}", '{"city": "Rome"}', '{ "a":1 }', '{"a": ', "", words(rng), '{"a": "\\ud83d"}'])
    return {"type": "function_call", "call_id": f"call_{number}", "name": words(rng), "arguments": arguments}


def image(rng):
    detail = {"detail": rng.choice(["low", "auto"])} if rng.random() < 0.5 else {}
    return {"type": "input_image", "image_url": f"data:{rng.random()}", **detail}


def content(rng):
    """What a user or a tool says: a text (that may be empty), or several parts."""
    if rng.random() < 0.75:
        return words(rng, 0)
    parts = [{"type": "input_text", "text": words(rng, 0)} for _ in range(rng.randint(1, 3))]
    if len(parts) == 1 or rng.random() < 0.4:
        parts.insert(rng.randint(0, len(parts)), image(rng))
    if rng.random() < 0.2:
        parts.append({"type": "input_file", "filename": "a.txt", "file_data": words(rng)})
    return parts


def model_turn(rng, calls_so_far):
    """A turn as `chat_to_response` makes them: reasoning items, a message, calls; not none at all."""
    items = [reasoning(words(rng)) for _ in range(rng.choice([0, 0, 1, 1, 2, 3]))]
    kind = rng.random()
    if kind < 0.6:
        items.append(message(said(words(rng))))
    elif kind < 0.65:
        items.append(message({"type": "refusal", "refusal": words(rng)}))
    items += [call(rng, calls_so_far + index) for index in range(rng.choice([0, 0, 0, 1, 1, 2, 3]))]
    return items or [message(said(words(rng, 0)))]


def conversation(rng):
    """The items of a whole conversation and its model turns, in the form in which a chat can say them."""
    items = [{"role": "system", "content": content(rng)} for _ in range(rng.choice([0, 0, 1, 1, 2]))]
    items += [{"role": "user", "content": content(rng)} for _ in range(rng.choice([1, 1, 1, 2]))]
    turns = []
    calls = 0
    for _ in range(rng.randint(0, 4)):
        turn = model_turn(rng, calls)
        turns.append(turn)
        items += turn
        ids = [item["call_id"] for item in turn if item["type"] == "function_call"]
        calls += len(ids)
        items += [{"type": "function_call_output", "call_id": call_id, "output": content(rng)} for call_id in ids]
        if not ids or rng.random() < 0.1:
            items += [{"role": "user", "content": content(rng)} for _ in range(rng.choice([1, 1, 2]))]
    if rng.random() < 0.1:
        items.insert(rng.randint(0, 1), {"role": "system", "content": words(rng)})
    return items, turns


def parameters(rng):
    """Everything that a request may have besides its input and that a chat has a place for."""
    schema = {"type": "object", "properties": {words(rng): {"type": "string"}}}
    tools = [
        {"type": "function", "name": words(rng), "description": words(rng, 0), "parameters": schema, "strict": True},
        {"type": "function", "name": "g", "parameters": {}},
    ][: rng.randint(1, 2)]
    choices = ["auto", "none", "required", {"type": "function", "name": "g"}]
    choices.append({"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "g"}]})
    formats = [{"type": "text"}, {"type": "json_object"}, {"type": "json_schema", "name": "a", "schema": schema}]
    maybe = {
        "tool_choice": rng.choice(choices),
        "parallel_tool_calls": rng.random() < 0.5,
        "temperature": rng.choice([0, 0.7, 1.0]),
        "top_p": 0.9,
        "max_output_tokens": rng.randint(1, 99),
        "reasoning": {"effort": rng.choice(["minimal", "low", "high"])},
        "text": {"format": rng.choice(formats), **({"verbosity": "low"} if rng.random() < 0.3 else {})},
        "metadata": {"a": words(rng)},
        "seed": rng.randint(0, 9),
        "stop": [words(rng)],
        **rng.choice([{}, {"top_logprobs": 3}, {"include": ["message.output_text.logprobs"]}]),
    }
    given = {"tools": tools} if rng.random() < 0.6 else {}
    without = () if given else ("tool_choice", "parallel_tool_calls")  # mean nothing without tools
    return {**given, **{key: maybe[key] for key in maybe if key not in without and rng.random() < 0.4}}


def over_the_wire(body):
    return json.loads(json.dumps(body))


# Requests -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ten_thousand_conversations_come_back_identical():
    met = Counter()
    for seed in range(CONVERSATIONS):
        rng = random.Random(seed)
        items, turns = conversation(rng)
        request = {"input": items, **parameters(rng)}
        before = copy.deepcopy(request) if seed % 10 == 0 else request
        chat = over_the_wire(request_to_chat(request))
        assert chat_to_request(chat) == request, seed
        assert request == before
        assert request_to_chat(chat_to_request(chat)) == chat, seed
        assert sum(message["role"] == "assistant" for message in chat["messages"]) == len(turns)
        met["several reasoning blocks"] += any(len(turn) > 1 and turn[1]["type"] == "reasoning" for turn in turns)
        met["several calls"] += any(item.get("call_id") == "call_1" for item in items)
        met["parts"] += any(isinstance(item.get("output"), list) for item in items)
        met["JSON schema"] += chat.get("response_format", {}).get("type") == "json_schema"
        met["allowed tools"] += isinstance(chat.get("tool_choice"), dict) and "allowed_tools" in chat["tool_choice"]
    assert len(met) == 5 and all(count > CONVERSATIONS / 100 for count in met.values()), met


def decorated(rng, items):
    """The same conversation as other people write it: with ids, in other forms, a turn's items in any order."""
    result = []
    for item in items:
        item = copy.deepcopy(item)
        if item.get("role") in ("user", "system"):
            if rng.random() < 0.3:
                item = {"type": "message", "status": "completed", "id": f"msg_{rng.random()}", **item}
            if item["role"] == "system" and rng.random() < 0.5:
                item["role"] = "developer"
            if isinstance(item["content"], str) and rng.random() < 0.3:
                item["content"] = [{"type": "input_text", "text": item["content"]}]
        elif item["type"] == "function_call_output":
            if rng.random() < 0.2:
                item["output"] = {"text": words(rng), "n": [1, None]}
        else:
            item.update(id=f"id_{rng.random()}", status="completed")
            if item["type"] == "message" and "text" in item["content"][0]:
                text = item["content"][0]["text"]
                cut = rng.randint(0, len(text))
                form = rng.random()
                if form < 0.2:
                    item["content"] = text
                elif form < 0.4:
                    item["content"] = [said(text[:cut]), {**said(text[cut:]), "annotations": [{"type": "x"}]}]
                elif form < 0.6:
                    result.append({**item, "content": [said(text[:cut])]})
                    item = {"role": "assistant", "content": text[cut:]}
            elif item["type"] == "reasoning":
                text = item["summary"][0]["text"]
                if rng.random() < 0.3:
                    item.update(content=[{"type": "reasoning_text", "text": text}], encrypted_content="x")
            if rng.random() < 0.2 and result and result[-1].get("type") in ("reasoning", "function_call"):
                result.insert(len(result) - 1, item)
            else:
                result.append(item)
            if rng.random() < 0.3:
                tokens = [rng.randint(0, 99) for _ in range(3)]
                result[-1].update(zip(TOKEN_FIELDS, (tokens, tokens, [-0.5] * 3), strict=True))
            continue
        result.append(item)
    return result


def normal(request):
    """What a request says, in the form in which a chat says it (written without looking at the conversion)."""
    items = [{"role": "system", "content": request["instructions"]}] if "instructions" in request else []
    turn = []
    for item in [*request["input"], {"role": "end"}]:
        kind, role = item.get("type"), item.get("role")
        if role == "assistant" or kind in ("reasoning", "function_call"):
            turn.append(item)
            continue
        items += normal_turn(turn)
        turn = []
        if kind == "function_call_output":
            output = normal_content(item["output"])
            items.append({"type": kind, "call_id": item["call_id"], "output": output})
        elif role != "end":
            role = "system" if role == "developer" else role
            items.append({"role": role, "content": normal_content(item["content"])})
    return {**{key: value for key, value in request.items() if key != "instructions"}, "input": items}


def normal_content(content):
    if isinstance(content, dict):
        return json.dumps(content, ensure_ascii=False)
    if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "input_text":
        return content[0]["text"]
    return content


def normal_turn(turn):
    thoughts, text, refusal, calls, messages = [], "", "", [], 0
    for item in turn:
        if item.get("type") == "reasoning":
            thoughts.append(reasoning((item.get("content") or item["summary"])[0]["text"]))
        elif item.get("type") == "function_call":
            calls.append({key: item[key] for key in ("type", "call_id", "name", "arguments")})
        else:
            messages += 1
            parts = [said(item["content"])] if isinstance(item["content"], str) else item["content"]
            text += "".join(part.get("text", "") for part in parts)
            refusal += "".join(part.get("refusal", "") for part in parts)
    parts = [said(text)] if text else []
    parts += [{"type": "refusal", "refusal": refusal}] if refusal else []
    if messages and not (parts or thoughts or calls):
        parts = [said("")]
    return [*thoughts, *([message(*parts)] if parts else []), *calls]


@pytest.mark.slow
def test_conversations_in_any_other_form_come_back_in_the_normal_one_and_say_the_same():
    changed = 0
    for seed in range(CONVERSATIONS):
        rng = random.Random(seed)
        items, _ = conversation(rng)
        assert normal({"input": items}) == {"input": items}, seed
        request = {"input": decorated(rng, items), **parameters(rng)}
        if rng.random() < 0.4:
            request["instructions"] = words(rng, 0)
        chat = request_to_chat(request)
        assert not any(field in json.dumps(chat) for field in TOKEN_FIELDS), seed
        again = chat_to_request(over_the_wire(chat))
        assert again == normal(request), seed
        assert request_to_chat(again) == chat, seed
        changed += again != request
    assert changed > CONVERSATIONS / 2


# Answers ------------------------------------------------------------------------------------------------------------


def response(rng, turn, number):
    """A model turn as an engine answers it."""
    name = f"chatcmpl-{number}"
    items, blocks, calls = [], 0, 0
    for item in copy.deepcopy(turn):
        if item["type"] == "reasoning":
            item["id"] = f"rs_{name}_{blocks}" if blocks else f"rs_{name}"
            blocks += 1
        else:
            item["id"] = f"msg_{name}" if item["type"] == "message" else f"fc_{name}_{calls}"
            item["status"] = "completed"
            calls += item["type"] == "function_call"
        items.append(item)
    reason = rng.choice([None, None, None, "max_output_tokens", "content_filter", "abort"])
    if reason and items[-1]["type"] != "reasoning":
        items[-1]["status"] = "incomplete"
    log_probs = [-rng.random() for _ in range(rng.randint(0, 5))]
    if rng.random() < 0.6:
        tokens = [rng.randint(0, 99) for _ in log_probs]
        items[-1].update(zip(TOKEN_FIELDS, ([number, 2, 3], tokens, log_probs), strict=True))
        top = [{"token": "y", "logprob": -1.0, "bytes": [121]}]
        texts = [item for item in items if item["type"] == "message" and "text" in item["content"][0]]
        for item in texts if log_probs and rng.random() < 0.2 else ():
            entries = [{"token": "x", "logprob": value, "top_logprobs": top} for value in log_probs]
            item["content"][0]["logprobs"] = entries
    elif rng.random() < 0.3 and log_probs:
        for item in items:
            if item["type"] == "message" and "text" in item["content"][0]:
                item["content"][0]["logprobs"] = [{"token": "x", "logprob": value} for value in log_probs]
    usage = None
    if rng.random() < 0.8:
        usage = {"input_tokens": rng.randint(0, 9), "output_tokens": rng.randint(1, 9)}
        usage["total_tokens"] = usage["input_tokens"] + usage["output_tokens"]
        if rng.random() < 0.5:
            usage["input_tokens_details"] = {"cached_tokens": 1}
            usage["output_tokens_details"] = {"reasoning_tokens": 2}
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": float(rng.randint(0, 99)),
        "model": words(rng),
        "status": "incomplete" if reason else "completed",
        "output": items,
        "incomplete_details": {"reason": reason} if reason else None,
        "usage": usage,
    }


@pytest.mark.slow
def test_every_turn_of_ten_thousand_conversations_comes_back_identical_with_its_own_tokens():
    with_tokens = cut = 0
    for seed in range(CONVERSATIONS):
        rng = random.Random(seed)
        _, turns = conversation(rng)
        answers = [response(rng, turn, number) for number, turn in enumerate(turns)]
        chats = [over_the_wire(response_to_chat(answer)) for answer in answers]
        again = [chat_to_response(chat) for chat in chats]
        assert again == answers, seed
        assert [response_to_chat(answer) for answer in again] == chats, seed
        for number, answer in enumerate(again):
            carriers = [item for item in answer["output"] if set(TOKEN_FIELDS) & item.keys()]
            assert all(item is answer["output"][-1] and set(TOKEN_FIELDS) <= item.keys() for item in carriers)
            assert all(item["prompt_token_ids"][0] == number for item in carriers)
            with_tokens += len(carriers)
            cut += answer["status"] == "incomplete"
    assert with_tokens > CONVERSATIONS / 2 and cut > CONVERSATIONS / 4


@pytest.mark.parametrize("missing", TOKEN_FIELDS)
def test_token_fields_go_together_or_not_at_all(missing):
    answer = response(random.Random(0), [message(said("4"))], 7)
    answer["output"][-1].update(zip(TOKEN_FIELDS, ([1], [2], [-0.5]), strict=True))
    complete = response_to_chat(answer)
    assert complete["choices"][0]["token_ids"] == [2]
    answer["output"][-1].pop(missing)
    chat = response_to_chat(answer)
    assert "prompt_token_ids" not in chat and "token_ids" not in chat["choices"][0]
    assert not set(TOKEN_FIELDS) & chat_to_response(chat)["output"][-1].keys()


# Servers ------------------------------------------------------------------------------------------------------------


def test_servers_that_parse_reasoning_and_calls_and_servers_that_do_not_say_the_same():
    parser = ReasoningParser(ToolCallParser(gym.make("gym_llm/Weather-v0")))
    parser.reset(seed=0)
    for seed in range(1000):
        rng = random.Random(seed)
        plain = [piece for piece in PIECES if not set(piece) & set('<>{}"\\\ud800')]
        thought, answer = ("x" + "".join(rng.choices(plain, k=rng.randint(0, 6))) for _ in range(2))
        arguments = json.dumps({"city": thought}, ensure_ascii=False)
        fields = {"content": answer, "tool_calls": []}
        text = f"<think>{thought}</think>{answer}"
        if rng.random() < 0.5:
            fields["tool_calls"].append({"id": "call_1", "function": {"name": "f", "arguments": arguments}})
            text += f'<tool_call>{{"name": "f", "arguments": {arguments}}}</tool_call>'
        outputs = []
        for form in (
            {**fields, "reasoning_content": thought},
            {**fields, "reasoning": thought},
            {**fields, "reasoning": thought, "reasoning_content": thought},
            {**fields, "reasoning": thought, "reasoning_content": None},
            {"content": text},
            {"content": text, "reasoning_content": "", "tool_calls": None},
        ):
            completion = {"id": "c", "choices": [{"message": form, "finish_reason": "stop"}]}
            turn = parser.env.action(parser.action(chat_to_response(completion)))["output"]
            parser.reset(seed=0)  # call ids count from 1 again
            outputs.append([{key: item[key] for key in item if key not in ("id", "status")} for item in turn])
        assert all(output == outputs[0] for output in outputs[1:]), (seed, outputs)
