"""What a reader sees: result tables, their comparison with the papers, the judged claims and the site."""
