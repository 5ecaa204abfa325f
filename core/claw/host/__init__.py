"""Plugins: found, loaded, isolated, verified; the hook specifications."""
