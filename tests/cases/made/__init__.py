"""Files and services that adapters build for their rows."""
