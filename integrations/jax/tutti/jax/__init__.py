"""Runs jax on tutti."""
