"""Datasets on Hugging Face, and in GitLab's model registry."""
