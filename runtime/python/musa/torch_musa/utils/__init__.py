"""torch_musa.utils: the extension builder."""
