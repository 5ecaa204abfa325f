"""The turn of an agent: its context, loop, tool gate, session queue and routing."""
