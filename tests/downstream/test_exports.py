"""What `gym-llm export` writes is read back by the tools that it is for."""

import pytest
from peers import in_peer
from random_talk import play

from gym_llm.utils.json_codec import dumps_record

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    path = tmp_path_factory.mktemp("talk") / "talk.jsonl"
    path.write_bytes(b"".join(map(dumps_record, play(200))))
    return path


@pytest.mark.parametrize("peer", ["inspect", "harbor"])
def test_the_tool_reads_what_was_exported(talk, tmp_path, peer):
    said = in_peer(peer, f"{peer}.py", str(talk), str(tmp_path))
    assert 200 in said.values() and said["calls"] > 200
