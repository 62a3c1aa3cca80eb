"""What a run tells people and files while it runs. The loop writes events; nothing in here knows the loop."""
