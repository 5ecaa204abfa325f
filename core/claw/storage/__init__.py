"""Durable files, SQLite, session transcripts, the clock."""
