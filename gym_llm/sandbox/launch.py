"""Starts bubblewrap from root without root's rights; `sandbox.backends.without_root` runs `main`.

In namespaces inside, root outside would still own the kernel's settings, and no limit on processes would hold for it.
So root becomes an unused user. Folders that this user could not reach, e.g. an interpreter below /root, are mounted in
their place first, in a private namespace of mounts.
"""

from __future__ import annotations

import os

from inside import kernel


def main(user: int, hidden: dict[str, list[str]], command: list[str]) -> None:
    """Put folders where the user can reach them, become that user, and become the command."""
    if hidden:
        kernel.unshare(kernel.NEW_MOUNTS)
        kernel.mount("", "/", kernel.RECURSIVE | kernel.PRIVATE)
        for top, unordered in hidden.items():
            paths = sorted(unordered)  # a folder before those in it
            descriptors = [os.open(path, os.O_PATH) for path in paths]
            kernel.mount("tmpfs", top, 0, "mode=755,size=1m")
            for path, descriptor in zip(paths, descriptors, strict=True):
                os.makedirs(path, exist_ok=True)
                kernel.mount("", path, kernel.BIND | kernel.RECURSIVE, source=f"/proc/self/fd/{descriptor}")
                os.close(descriptor)
    kernel.write("/proc/self/oom_score_adj", "1000")  # by root: no other user may lower it then
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    os.execv(command[0], command)
