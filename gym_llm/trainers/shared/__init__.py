"""Parts that several trainer adapters use."""
