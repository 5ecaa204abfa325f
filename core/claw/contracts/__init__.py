"""The contracts between plugins and core: messages, transcript, tools, providers, channels, events, errors."""
