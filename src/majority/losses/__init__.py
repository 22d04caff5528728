"""What turns logits or features of instances into labels of bags, and how far they are from the true ones."""
