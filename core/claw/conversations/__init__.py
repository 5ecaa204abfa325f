"""Conversations as people meet them: which there are, what was said, where something was said, what is kept of them.

``kept`` finds the files, ``told`` makes what is in one readable, ``page`` writes that as a document, ``sought`` looks for
words in all of them, ``tended`` puts aside, mends, compresses and removes.
"""
