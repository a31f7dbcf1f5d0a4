"""Base models of a profile: trained from scratch for the generated world, fetched elsewhere."""

from collections.abc import Callable
from pathlib import Path

from cosearch.data.fetch_hub import Download, download, fetch
from cosearch.data.fetch_models import fetch_mini_models
from cosearch.engines.models import set_threads
from cosearch.files.model_record import record_models
from cosearch.params.blocks import Agent, Data, Encoder, Ranker
from cosearch.params.settings import Settings
from cosearch.pretrain.base_models import LESSONS, build_base_models
from cosearch.pretrain.recipe import Recipe, override, world_interface
from cosearch.run.stage import Stage, run_stage

PACKAGED = "mini"
"""The profile whose models come from packages instead of the hub."""


def page(stage: Stage) -> None:
    """Write models/PROFILE and the record of its models, models/PROFILE.json."""
    settings, folder = stage.settings, Path("models") / stage.settings.profile
    data = settings.section(Data)
    if data.source != "world":
        obtain(settings, Path(), download, stage.progress.say)
        record_models(settings.profile, settings.model_folders())
        return
    settings.asked.add("base_models")
    set_threads(settings.file.runtime.threads)
    # `only` does not belong to the recipe. It names the models to make; the others stay.
    block = dict(settings.file.base_models)
    only = block.pop("only", list(LESSONS))
    recipe = override(Recipe(), block)
    parts = (settings.section(Encoder), settings.section(Agent), settings.section(Ranker))
    build_base_models(folder, recipe, world_interface(data, *parts), stage.progress.show, only=only)
    record_models(settings.profile, settings.model_folders())


def obtain(settings: Settings, root: Path, get: Download, say: Callable[[str], None]) -> None:
    """Fetch the models of a profile that trains none, or check the ones that are there.

    A profile that was made like another one links to the models of that one. Raises ValueError with
    advice if a model is missing and cannot be fetched.
    """
    folder = root / "models" / settings.profile
    owner = folder.resolve().name if folder.is_symlink() else settings.profile
    hub = settings.file.hub.get(owner)
    if hub is not None:
        fetch(hub.model_copy(update={"files": {}}), root, root, get, say)
    elif owner == PACKAGED:
        fetch_mini_models(root / "models" / owner)
    wanted = settings.model_folders()
    if lacking := [name for name in wanted if not (root / name / "config.json").is_file()]:
        raise ValueError(
            f"no model in {', '.join(lacking)}: place them there, or say in hub.{owner} of"
            " hub.yaml where they come from"
        )


def main() -> None:
    """Run the stage from the command line."""
    run_stage("base_models", __doc__, page)


if __name__ == "__main__":
    main()
