"""How one network is trained."""
