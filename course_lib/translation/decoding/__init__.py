"""Translations from a trained model, many sentences at once."""
