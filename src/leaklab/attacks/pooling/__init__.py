"""Networks with ReLU and max pooling, taken apart from the head: no matching, and a certificate."""
