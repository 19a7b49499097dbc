"""Networks that read text: token embeddings in, logits out."""
