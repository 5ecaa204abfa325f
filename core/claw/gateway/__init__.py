"""The gateway: the process that serves the channels of one home, and what other processes may know and ask of it."""
