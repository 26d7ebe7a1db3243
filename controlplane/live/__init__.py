"""The live stream: `/ws/fleet`, the fleet as it is and every change of it, as it is committed."""
