"""What a search varies: dimensions, conditions on them, samplers, and a space for every learner."""
