"""Defenses, one file each: pure functions of one client that the engine lifts over clients."""
