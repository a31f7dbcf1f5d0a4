"""CoSearch: a search agent and a document ranker trained together (arXiv 2604.17555)."""
