"""Result tables against printed numbers and claims."""
