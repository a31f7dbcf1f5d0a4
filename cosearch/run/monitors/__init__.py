"""Those who watch a run: the terminal, a journal, TensorBoard, a Prefect server."""
