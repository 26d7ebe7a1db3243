"""The REST API: parse, call a command or a query, answer. What it accepts and gives is declared once, for OpenAPI too."""
