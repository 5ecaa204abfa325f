"""Admission, workspace files, redaction, child processes, untrusted text, HTTP: no plugin has its own."""
