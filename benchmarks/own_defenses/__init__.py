"""What attackers that know no defense by name read of defenses of which the truth is known."""
