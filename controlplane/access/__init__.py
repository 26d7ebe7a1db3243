"""Who may do what: roles and passwords of people, tokens of machines, gates of the bootstrap wires, and what was tried."""
