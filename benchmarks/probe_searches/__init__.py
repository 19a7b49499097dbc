"""What the searches of a probe read of many kinds of models, and of controls that hold nothing to be read."""
