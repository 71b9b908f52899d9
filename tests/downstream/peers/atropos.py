"""1,000 random episodes over Atropos' real server and through its trainer's batches; run by tests/downstream."""

import asyncio
import importlib
import importlib.util
import json
import logging
import math
import random
import sys
import types

import aiohttp
import numpy as np
import uvicorn
from random_talk import play

GROUP, BATCH, MAX_TOKENS = 8, 64, 4096
TRAINER = {
    "wandb_group": "",
    "wandb_project": "",
    "batch_size": BATCH,
    "max_token_len": MAX_TOKENS,
    "checkpoint_dir": "",
    "save_checkpoint_interval": 0,
    "starting_step": 0,
    "num_steps": 10,
}


def trainer_data():
    """example_trainer.data of the wheel, without what its package imports besides: vLLM and PEFT."""
    package = types.ModuleType("example_trainer")
    spec = importlib.util.find_spec("example_trainer")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["example_trainer"] = package
    return importlib.import_module("example_trainer.data")


def sampled_segments(record):
    return [segment for segment in record["trajectory"] or () if 1 in segment["loss_mask"]]


async def batches(session, url):
    found = []
    while (answer := await (await session.get(f"{url}/batch")).json())["batch"] is not None:
        found.append(answer["batch"])
    return found


async def main():
    from atroposlib.api.server import app
    from atroposlib.envs.base import ScoredDataGroup

    from gym_llm.trainers.atropos import AtroposServer, scored_data

    records = await asyncio.to_thread(play, 1000)
    random.Random(0).shuffle(records)
    records.sort(key=lambda record: record["reward"] is None or len(sampled_segments(record)) != 1)
    groups = [records[start : start + GROUP] for start in range(0, len(records), GROUP)]
    expected, whole = {}, []
    for number, group in enumerate(groups):
        sampled = [sampled_segments(record) for record in group]
        if any(record["reward"] is None for record in group) or any(len(each) != 1 for each in sampled):
            continue
        whole.append(group)
        for record, (segment,) in zip(group, sampled, strict=True):
            expected[tuple(segment["input_ids"])] = (number, record, segment)

    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        assert not serving.done()
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession() as session:
        await session.post(f"{url}/register", json=TRAINER)
        starting = AtroposServer(url, "talk", group_size=GROUP)
        entering = asyncio.create_task(starting.__aenter__())
        await asyncio.sleep(0.1)
        assert not entering.done()  # it waits for the trainer's first request
        assert (await (await session.get(f"{url}/batch")).json())["batch"] is None
        await entering
        sent = 0
        for group in groups:
            scored = scored_data(group, temperature=0.5, messages=True)
            assert (scored is not None) == (group in whole)
            assert scored is None or set(scored) <= set(ScoredDataGroup.__annotations__)
            sent += await starting.send(scored)
        assert not await starting.send(None)
        fine = scored_data(whole[0])
        assert not await starting.send({**fine, "tokens": fine["tokens"] + [[1]]})
        assert not await starting.send({**fine, "tokens": [[1] * MAX_TOKENS] * GROUP})
        full = AtroposServer(url, "full", group_size=GROUP, most_queued=1, timeout=0.1)
        async with full:
            try:
                await full.send(fine)
            except TimeoutError as error:
                assert "takes what is queued" in str(error), error
            else:
                raise AssertionError("A full queue is waited for.")
        try:
            await AtroposServer(url, "odd", group_size=7).__aenter__()
        except ValueError as error:
            assert "batch_size is 64" in str(error), error
        else:
            raise AssertionError("Groups of 7 make no batch of 64.")
        handed = await batches(session, url)
        await starting.__aexit__()
    left = list(app.state.queue)
    assert not any(app.state.buffer.values())
    assert sum(len(group["tokens"]) for group in left) < BATCH
    server.should_exit = True
    await serving
    try:
        await AtroposServer(url, "gone", group_size=GROUP).__aenter__()
    except ConnectionError as error:
        assert "does not answer" in str(error), error
    else:
        raise AssertionError("There is no server any more.")

    data = trainer_data()
    counts = {"groups": sent, "whole": len(whole), "rows": 0, "batches": len(handed)}
    seen = set()
    for batch in [*handed, left]:
        flat = [
            (*columns, group)
            for group in batch
            for columns in zip(
                group["tokens"], group["masks"], group["inference_logprobs"], group["scores"], strict=True
            )
        ]
        # the trainer's function changes what it is given
        tokens, labels, advantages, temperatures, logprobs = data.pad_data_to_good_offset(
            {"batch": json.loads(json.dumps(batch))}, len(flat)
        )
        assert (temperatures[0].flatten() == 0.5).all()
        for row, (ids, mask, given, score, group) in enumerate(flat):
            trained = labels[0][row].numpy() != -100
            advantage = advantages[0][row].item()
            number, record, segment = expected[tuple(ids)]
            seen.add(tuple(ids))
            counts["rows"] += 1
            assert score == record["reward"]
            sampled = np.array(segment["loss_mask"], bool)
            assert mask == [token if one else -100 for token, one in zip(ids, sampled, strict=True)]
            assert given == [each if one else 1.0 for each, one in zip(segment["logprobs"], sampled, strict=True)]
            length = len(ids) - 1
            assert tokens[0][row][:length].tolist() == ids[:-1]
            assert trained[:length].tolist() == sampled[1:].tolist() and not trained[length:].any()
            assert labels[0][row].numpy()[trained].tolist() == np.array(ids)[1:][sampled[1:]].tolist()
            there = logprobs[0][row].numpy()[trained].tolist()
            assert there == np.array(segment["logprobs"])[1:][sampled[1:]].tolist()
            rewards = [one["reward"] for one in groups[number]]
            deviation = np.std(rewards)
            wanted = (score - np.mean(rewards)) / deviation if deviation else 0.0
            assert math.isclose(advantage, wanted, abs_tol=1e-6), (advantage, wanted)
            said = group["messages"][group["tokens"].index(ids)]
            assert said[0] == {"role": "user", "content": f"Go {record['number']}."}
            assert len(said) > 1 and all("content" in message for message in said)
    assert seen == set(expected)
    masked = [record for record in records if record["reward"] is None]
    counts |= {"episodes": len(records), "segments": len(expected), "masked": len(masked)}
    assert {len(group["tokens"]) for batch in handed for group in batch} == {GROUP}
    print(json.dumps(counts))


logging.disable(logging.WARNING)
asyncio.run(main())
