"""The gateway process: its lock, signals, log files, status and service definition."""
