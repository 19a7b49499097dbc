"""What a server sees: observations, the knowledge that a threat model grants, and who needs what."""
