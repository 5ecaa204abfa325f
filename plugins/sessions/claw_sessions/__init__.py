"""Sessions of claw: listed, searched, exported, maintained."""
