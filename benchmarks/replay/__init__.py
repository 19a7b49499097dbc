"""The probe's replay against planted mistakes and right descriptions."""
