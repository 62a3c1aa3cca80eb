"""The Game Boy (DMG) as functions over the state and memory of one console, compiled for CPU threads and GPUs."""
