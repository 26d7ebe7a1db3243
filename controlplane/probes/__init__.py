"""Looking at ranks from outside: who may be probed, one probe, and many at once."""
