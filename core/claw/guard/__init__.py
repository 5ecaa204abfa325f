"""What may exist only once, so that no plugin brings its own: the fence, the way out, redaction, a child's environment."""
