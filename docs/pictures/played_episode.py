"""The picture of an episode that the included model plays when the picture is drawn."""

import textwrap

from drawing import Picture

_HUES = {"user": "blue", "thinking": "line", "call": "violet", "tool": "green", "assistant": "violet"}


def played_episode():
    """Return the picture."""
    import gym_llm

    (record,) = gym_llm.collect("gym_llm/Weather-v0", "pocket", episodes=1, sampling={"temperature": 0.0})
    about = (
        "An episode as it was played: a question, a tool call, the tool's output, an answer, the reward and its tokens"
    )
    turns = [(who, textwrap.wrap(words, 66)) for who, words in _turns(record)]
    heights = [22 + 20 * len(lines) for _, lines in turns]
    picture = Picture("played_episode", about, 1000, max(96 + sum(heights) + 8 * len(turns), 420))
    picture.text(28, 42, "gym-llm rollout gym_llm/Weather-v0 --show 1", size=15, bold=True, mono=True)
    y = 64
    for (who, lines), height in zip(turns, heights, strict=True):
        hue = _HUES[who]
        picture.text(28, y + 25, who, size=14, bold=True, hue="soft" if hue == "line" else hue)
        picture.box(124, y, 580, height, hue="plain" if hue == "line" else hue)
        for number, line in enumerate(lines):
            picture.text(140, y + 25 + 20 * number, line, size=13.5, mono=who in ("call", "tool"))
        y += height + 8

    segments = record["trajectory"]
    read = sum(len(segment["input_ids"]) for segment in segments)
    sampled = sum(sum(segment["loss_mask"]) for segment in segments)
    picture.text(740, 84, "the record of it", size=13, hue="soft")
    picture.box(
        740, 96, 232, 76, hue="green", title=f"reward {record['reward']:g}", lines=["what verify returned"], mono=False
    )
    facts = [f"{sampled} sampled, with log", "probabilities, for a trainer"]
    picture.box(740, 184, 232, 92, hue="red", title=f"{read} token ids", lines=facts, mono=False)
    facts = ["resumed, compared, viewed,", "scored again"]
    picture.box(740, 288, 232, 92, title="one line of a file", lines=facts, mono=False)
    return picture


def _turns(record):
    asked = record["responses_create_params"]["input"]
    yield "user", asked if isinstance(asked, str) else _text(asked[-1])
    for item in record["response"]["output"]:
        match item["type"]:
            case "reasoning":
                yield "thinking", " ".join(part["text"] for part in item.get("content") or item["summary"])
            case "function_call":
                yield "call", f"{item['name']}({item['arguments']})"
            case "function_call_output":
                yield "tool", item["output"]
            case "message":
                yield "assistant", _text(item)


def _text(item):
    content = item["content"]
    return content if isinstance(content, str) else " ".join(part["text"] for part in content)
