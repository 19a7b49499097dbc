"""One program per kind of attacker."""
