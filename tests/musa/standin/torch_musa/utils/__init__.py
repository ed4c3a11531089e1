"""Stand-in for torch_musa.utils."""
