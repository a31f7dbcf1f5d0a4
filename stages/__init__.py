"""One module per stage of dvc.yaml: a page that reads parameters and artifacts, calls the library,
and writes artifacts."""
