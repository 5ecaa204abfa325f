"""What adapters build for their rows."""
