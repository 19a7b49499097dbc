"""What bounds each layer of a compiled step: arithmetic, memory, or neither."""
