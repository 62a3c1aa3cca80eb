"""What happens to agents after training: a registry of versions, promotion, serving, paper trading."""
