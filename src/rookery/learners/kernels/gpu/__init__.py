"""Learning on a GPU: captured graphs, kernels, and what they need."""
