"""A network of one number, with the interface of NeMo Gym's simulator."""
