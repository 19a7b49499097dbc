"""How a client changes its training images from step to step, one file each (see ``base.Augmentation``)."""
