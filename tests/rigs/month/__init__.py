"""A month of conversations with one agent: what people say, a model that understands it, and how the month went."""
