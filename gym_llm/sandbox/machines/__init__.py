"""Root file systems and machines for episodes."""

from gym_llm.sandbox.machines.machine_pool import Machines

__all__ = ["Machines"]
