"""How time and memory grow with what a job is asked for: points, fits, and what the plan says beside them."""
