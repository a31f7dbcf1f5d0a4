"""The dense encoder, the FAISS index and the retriever over it."""
