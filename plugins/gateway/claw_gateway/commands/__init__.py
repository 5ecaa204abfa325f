"""Commands about the gateway: gateway, channels, pairing, turns, logs."""
