"""The set of installed plugins, changed as a whole: resolved first, built aside, made current by one rename.

What claw installs goes into a layer under ``CLAW_HOME/plugins.d``, never into the environment that claw runs in.
"""
