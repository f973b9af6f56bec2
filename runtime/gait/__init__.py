"""Measured gait: from markers and force plates to motion, torques and back."""
