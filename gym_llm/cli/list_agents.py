"""`gym-llm list --agents`: the harnesses and other packages' agents, as a table for people or lines for programs."""

from __future__ import annotations

from gym_llm.agents.harnesses import HarnessFile, harness_names, load_harness
from gym_llm.agents.harnesses.layers import layers_of
from gym_llm.errors import EngineUnavailable


def list_agents() -> None:
    """Print the agents."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows = [_row(name) for name in harness_names()]
    console = Console()
    if not console.is_terminal:
        print("agent", "version", "title", "API", "tools", "source", "installed", "limits", sep="\t")
        for row in rows:
            print(*row, sep="\t")
        return
    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    table.add_column("agent", no_wrap=True)
    table.add_column("what it is", overflow="fold")
    for column in ("API", "tools", "source"):
        table.add_column(column)
    for name, version, title, api, tools, source, installed, limits in rows:
        notes = f"\n[dim]{limits}[/dim]" if limits else ""
        state = f"{source}, {installed}" if installed else source
        table.add_row(f"{name}\n[dim]{version}[/dim]", f"{title}{notes}", api, tools, state)
    console.print(table)
    console.print(
        f"{len(rows)} agents. gym-llm rollout ENV_ID --agent NAME --engine http://HOST:PORT/v1", highlight=False
    )


def _row(name: str) -> tuple[str, ...]:
    loaded = load_harness(name)
    if not isinstance(loaded, HarnessFile):
        package = loaded.dist.name if loaded.dist else "another package"
        return (name, loaded.dist.version if loaded.dist else "", loaded.value, "", "", package, "", "")
    install = loaded.install
    source = "elsewhere" if install.elsewhere else "PyPI" if install.pip else "npm"
    installed = ""
    if not install.elsewhere:
        try:
            installed = "installed" if layers_of(loaded)[0].is_dir() else "at first use"
        except EngineUnavailable as error:
            installed = str(error)
    limits = " ".join(loaded.limits)
    return (loaded.name, loaded.version, loaded.title, loaded.dialect, loaded.tools, source, installed, limits)
