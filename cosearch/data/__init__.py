"""Questions, passages and what is made of them before training: world, corpus, vectors."""
