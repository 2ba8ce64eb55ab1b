"""Runs ray on tutti."""
