"""An agent behind HTTP: requests, batches, the change to a new champion, and the client."""
