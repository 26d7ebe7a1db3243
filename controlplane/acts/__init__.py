"""What people can do to the fleet: one table of actions, asked for, planned, compared and done. Admin and pages share it."""
