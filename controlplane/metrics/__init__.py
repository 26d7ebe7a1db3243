"""What is measured: the names, the counters, and how a scrape is answered. It knows nothing of the fleet."""
