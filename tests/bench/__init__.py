"""Measurements side by side with SGLang's own servers: `python -m tests.bench`, never part of the tests."""
