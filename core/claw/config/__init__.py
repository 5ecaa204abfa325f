"""The config file: one YAML or JSON file in the home, read into models; every error has its key, line and fix.

``source``, ``paths`` and ``summary`` read the plain tree and import little; the other modules import pydantic.
"""
