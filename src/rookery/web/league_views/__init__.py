"""What the pages of leagues show: ratings over time, tournaments as they are played, and every match."""
