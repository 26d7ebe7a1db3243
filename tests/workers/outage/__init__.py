"""The control plane is away while workers work: nothing fails, and afterwards nothing is missing."""
