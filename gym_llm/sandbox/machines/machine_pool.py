"""A pool of an environment's machines: images by name, images that Dockerfiles made, and machines of these."""

from __future__ import annotations

import asyncio
import fnmatch
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gym_llm.errors import UsageError
from gym_llm.sandbox.machines.container import ContainerMachine
from gym_llm.sandbox.machines.dockerfile import build, read_dockerfile
from gym_llm.sandbox.machines.image_names import REGISTRIES, parse_reference
from gym_llm.sandbox.machines.machine import BubblewrapMachine, Machine, MachineLimits, MachineProblem
from gym_llm.sandbox.machines.registry import pull
from gym_llm.sandbox.machines.rootfs import HOST, Image, ImageCache
from gym_llm.sandbox.machines.stoppable import in_thread

BACKENDS = ("bubblewrap", "docker", "podman")


class Machines:
    """A maker of machines, with a cache of their images.

    Args:
        backend: `bubblewrap`, or a container program, which finds images by itself.
        images: For bubblewrap: which image a name stands for. Names may be patterns (`ubuntu:*`), an image is what
            `ImageCache.image` takes. `host` is known already: this machine's own /usr, read-only, and a small rest.
        cache: The folder of unpacked images; None for one in the user's cache.
        cache_gb: How large it may become.
        build_network: Whether RUN in a Dockerfile has this machine's network.
        registries: For bubblewrap: where images that `images` does not name are pulled from.

    Raises:
        ValueError: If the backend is unknown.
    """

    def __init__(
        self,
        backend: str = "bubblewrap",
        *,
        images: Mapping[str, str] | None = None,
        cache: str | None = None,
        cache_gb: float = 20.0,
        build_network: bool = False,
        registries: Sequence[str] = REGISTRIES,
    ) -> None:
        if backend not in BACKENDS:
            raise ValueError(f"backend is one of {', '.join(BACKENDS)}; got {backend!r}.")
        self.backend = backend
        self.images = dict(images or {})
        self.build_network = build_network
        self.registries = tuple(registry.lower() for registry in registries)
        self._pulled_images: dict[str, Image] = {}
        self._cache = ImageCache(cache, limit=int(cache_gb * (1 << 30)))
        self._making: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def image(self, name: str) -> Image:
        """Return the image of this name.

        Raises:
            UsageError: If it is missing.
        """
        if self.backend != "bubblewrap":
            return Image(name, "")
        source = name if name == HOST else self.images.get(name)
        if source is None:
            source = next((path for one, path in self.images.items() if fnmatch.fnmatchcase(name, one)), None)
        if source is None:
            return await self._pulled(name)
        async with self._making[source]:
            return replace(await in_thread(lambda stopped: self._cache.image(source, stopped)), name=name)

    async def _pulled(self, name: str) -> Image:
        help_ = f"give images={{{name!r}: PATH}}, a folder, a tar, a `docker save` or 'host'"
        if (registry := parse_reference(name).registry) not in self.registries:
            raise UsageError(f"There is no image {name!r}: {help_}, or have {registry!r} among the `registries`.")
        try:
            async with self._making[name]:
                if name not in self._pulled_images:
                    self._pulled_images[name] = replace(await pull(name, self._cache), name=name)
                return self._pulled_images[name]
        except UsageError as error:
            raise UsageError(f"{str(error).rstrip('.')}: or {help_}.") from None

    async def built(self, dockerfile: str | Path, *, timeout_sec: float, limits: MachineLimits) -> Image:
        """Return the image that a Dockerfile makes; it is cached by its text, the files beside it, and its base.

        Raises:
            UsageError: If it cannot be carried out here.
        """
        if self.backend != "bubblewrap":
            return await ContainerMachine.build(self.backend, dockerfile, timeout_sec)
        recipe = read_dockerfile(dockerfile)
        base = await self.image(recipe.base)
        identity = json.dumps(["built", 2, base.folder, recipe.identity, self.build_network])
        async with self._making[identity]:
            made = await in_thread(lambda stopped: self._cache.find(identity, stopped))
            if made is None:
                machine = await BubblewrapMachine(base, limits, network=self.build_network).start()
                try:
                    image = await build(recipe, machine, base, timeout_sec=timeout_sec, network=self.build_network)
                    changes = await machine.snapshot()
                except MachineProblem as error:
                    raise UsageError(f"{dockerfile} cannot be carried out here: {error}") from None
                finally:
                    await machine.close()
                config = {"environment": image.environment, "workdir": image.workdir, "user": image.user}
                whole = not machine.overlay
                made = await in_thread(
                    lambda stopped: self._cache.changed(identity, base, changes, stopped, whole=whole, config=config)
                )
        return self._cache.of_entry(made, base)

    async def open(
        self, image: Image, limits: MachineLimits, *, network: bool = False, layers: Sequence[str] = ()
    ) -> Machine:
        """A new machine of an image.

        Args:
            image: The image.
            limits: What it may take.
            network: Whether it has this machine's network.
            layers: Folders that are shown in it, read-only; for bubblewrap only.

        Raises:
            SandboxUnavailable: If it does not start here.
        """
        if self.backend != "bubblewrap":
            return await ContainerMachine(self.backend, image, limits, network=network).start()
        return await BubblewrapMachine(image, limits, network=network, layers=layers).start()

    def close(self) -> None:
        """Let the cache remove what was used here."""
        self._pulled_images.clear()
        self._cache.close()
