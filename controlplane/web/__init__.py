"""The web process itself: its server, its health, its first page."""
