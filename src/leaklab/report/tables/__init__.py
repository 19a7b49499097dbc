"""Result tables for readers: Markdown, LaTeX and HTML."""
