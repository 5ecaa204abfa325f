"""Warnings about the config file: what it says and nothing obeys. Every command that judges the file shows them."""
