"""Guests: defenses, attacks and models that live outside of the house, judged like those inside."""
