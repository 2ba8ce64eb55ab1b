"""Runs lightgbm on tutti."""
