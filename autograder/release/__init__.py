"""Build the released lessons from their sources, and validate them."""
