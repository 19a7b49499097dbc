"""Latents."""
