"""OpenAI models, and every compatible endpoint, for claw."""
