"""What people really bring, drawn by chance and thousands of times: right data, or one line, and nothing lost."""
