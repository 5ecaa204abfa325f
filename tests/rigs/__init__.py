"""The kill rig: real gateway processes that die at any moment, the platforms they serve, and a judge of what is left.

``kill.py`` drives: it starts lives from the ``nursery``, lets people write on the ``platforms``, and ends the lives.
``script.py`` is what the model says. ``ledger.py`` reads what is on disk afterwards, and ``checker.py``, which knows none
of claw's code, compares it with what the platforms saw. ``flood.py`` is claw under more than it can answer.

For conversations: ``chaos.py`` makes histories and says what strict services think of them, ``damage.py`` breaks their
files, ``writers.py`` are processes that write into one and die, and ``linear.py`` judges whether what is left is a log.
"""
