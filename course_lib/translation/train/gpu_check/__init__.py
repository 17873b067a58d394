"""A command that tests and measures the lab on a machine's GPUs, without a corpus or a network."""
