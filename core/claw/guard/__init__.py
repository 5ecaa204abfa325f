"""What may exist only once, so that no plugin brings its own: fence, way out, redaction, admission, environment."""
