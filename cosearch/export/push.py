"""The upload of an exported folder to the Hugging Face hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi


def check_login() -> None:
    """Raises ValueError where the hub is not reached, or does not know who asks."""
    with _told_in_one_line():
        HfApi().whoami()


def upload(folder: Path, repository: str, kind: str) -> str:
    """Upload a folder in one commit; ``kind`` is ``model`` or ``dataset``. Returns its address.

    A repository that is not there yet is made private. Raises ValueError if the upload fails.
    """
    with _told_in_one_line():
        api = HfApi()
        made = api.create_repo(repository, repo_type=kind, private=True, exist_ok=True)
        api.upload_folder(
            repo_id=made.repo_id,
            repo_type=kind,
            folder_path=folder,
            commit_message=f"Export {folder.name}",
        )
    return str(made)


@contextmanager
def _told_in_one_line() -> Iterator[None]:
    try:
        yield
    except Exception as error:  # of the hub's library, or of whatever it reaches the network with
        raise ValueError(
            f"--push: the hub is not reached, or refuses ({error}); log in with `hf auth login`,"
            " and leave HF_HUB_OFFLINE unset"
        ) from error
