"""Starts the processes of the control plane on one host, keeps them running, and stops them all."""
