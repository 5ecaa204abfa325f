"""Administration of claw: plugins installed and locked, doctor, policy tests, set-up."""
