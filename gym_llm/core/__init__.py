"""The core: base class, tasks, tools and spaces of environments, and their driver."""
