"""The set of installed plugins, changed as a whole: resolved, built aside, made current by one rename."""
