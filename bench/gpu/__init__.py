"""What `run-gpu bench` is made of. Standard library only."""
