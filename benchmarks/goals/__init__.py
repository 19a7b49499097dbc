"""The goals of speed, what was measured of each, and what stands between."""
