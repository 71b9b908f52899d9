"""A model's weights on their way to an engine's processes: every tensor arrives, tied ones once."""

from pathlib import Path

import torch
from safetensors.torch import load_file

from gym_llm.engines.weights import weights_folder


def written(weights):
    with weights_folder(weights) as folder:
        return load_file(Path(folder) / "model.safetensors")


class Elsewhere:
    """A tensor in the memory of a device: copying gives a tensor here. All of them have had the same address."""

    shape = (4, 4)

    def __init__(self, tensor):
        self.tensor = tensor

    def data_ptr(self):
        return 1

    def detach(self):
        return self

    def contiguous(self):
        return self

    def cpu(self):
        return self.tensor.clone()


def test_tensors_that_had_the_same_address_one_after_the_other_all_arrive():
    true = {f"layer{number}.weight": torch.randn(4, 4) for number in range(8)}
    made = written((name, Elsewhere(tensor)) for name, tensor in true.items())
    assert made.keys() == true.keys() and all(torch.equal(made[name], true[name]) for name in true)


def test_tied_tensors_are_written_once():
    tensor, other = torch.randn(4, 4), torch.randn(4, 4)
    held = Elsewhere(tensor)
    assert set(written([("a", tensor), ("b", tensor.detach()), ("c", other)])) == {"a", "c"}
    assert set(written((name, tensor.view(4, 4)) for name in "ab")) == {"a"}
    assert set(written({"a": held, "b": held}.items())) == {"a"}
