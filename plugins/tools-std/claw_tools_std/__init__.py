"""File, shell and message tools for claw agents."""
