"""Two versions of one package at once in one vector environment: each shard has the packages it is given."""

import importlib.metadata
import importlib.util
import subprocess
import sys

import pytest
from testing import message

from gym_llm.vector.ray_vector_env import RayVectorEnv

OTHER = "0.7.0"
ROW = {"responses_create_params": {"input": [{"role": "user", "content": "What is 2 + 2?"}]}, "expected_answer": "4"}


def can_install(folder):
    """Whether pip finds the package, which is what Ray's runtime_env will ask it for."""
    asked = f"math-verify=={OTHER}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--dest", str(folder), asked]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.nightly
def test_two_versions_of_math_verify_side_by_side(ray, tmp_path):
    if importlib.util.find_spec("virtualenv") is None:
        pytest.skip("Ray's runtime_env needs virtualenv: pip install virtualenv.")
    if not can_install(tmp_path):
        pytest.skip("There is no package index to install math-verify from.")
    ours = importlib.metadata.version("math-verify")
    # One only: each that Ray makes is a copy of this whole virtual environment, a gigabyte or two.
    packages = [{"pip": [f"math-verify=={OTHER}"]}, None]
    with RayVectorEnv("gym_llm/MathVerify-v0", 4, tasks=[ROW], runtime_env=packages) as envs:
        assert envs.num_shards == 2
        envs.reset(seed=0)
        right, wrong = message("It is \\boxed{4}."), message("It is \\boxed{5}.")
        _, rewards, terminated, _, infos = envs.step([right, wrong, right, wrong])
    assert ours != OTHER
    assert infos["math_verify_version"].tolist() == [OTHER, OTHER, ours, ours]
    assert rewards.tolist() == [1.0, 0.0, 1.0, 0.0]
    assert terminated.all()


def test_a_list_of_packages_is_one_for_each_shard(ray):
    with pytest.raises(ValueError, match="one for each shard"):
        RayVectorEnv("gym_llm/Counter-v0", 4, num_shards=3, runtime_env=[None, None])
