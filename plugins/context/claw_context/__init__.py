"""The context engine of claw: compaction, pruning, recovery, memory flush, kept tool results."""
