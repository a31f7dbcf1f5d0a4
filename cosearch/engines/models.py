"""Where a model lies and how many threads may work on it, told without loading torch."""

from pathlib import Path


def set_threads(threads: int) -> None:
    """Set how many threads torch uses in this process. One thread keeps all bytes equal."""
    import torch

    torch.set_num_threads(threads)


def model_folder(folder: str | Path) -> Path:
    """``folder``, which must hold a Hugging Face model. Raises ValueError if it does not."""
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise ValueError(
            f"{path}: no model folder (config.json is missing); name another in params.yaml"
            " or run `make base-models`"
        )
    return path
