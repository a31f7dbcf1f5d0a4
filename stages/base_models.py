"""Base models of a profile: trained from scratch for the generated world, fetched elsewhere."""

from pathlib import Path

from cosearch.data.fetch_models import fetch_mini_models
from cosearch.engines.build import set_threads
from cosearch.pretrain.base_models import LESSONS, build_base_models
from cosearch.pretrain.recipe import Recipe, override, world_interface
from cosearch.schema import Agent, Data, Encoder, Ranker
from cosearch.stage import Stage, run_stage


def page(stage: Stage) -> None:
    """Write models/PROFILE."""
    settings, folder = stage.settings, Path("models") / stage.settings.profile
    data = settings.section(Data)
    if data.source != "world":
        fetch_mini_models(folder)
        return
    settings.asked.add("base_models")
    set_threads(settings.file.runtime.threads)
    # `only` is no part of the recipe: it names the models to make, the others stay.
    block = dict(settings.file.base_models)
    only = block.pop("only", list(LESSONS))
    recipe = override(Recipe(), block)
    parts = (settings.section(Encoder), settings.section(Agent), settings.section(Ranker))
    build_base_models(folder, recipe, world_interface(data, *parts), stage.progress.show, only=only)


def main() -> None:
    """Run the stage from the command line."""
    run_stage("base_models", __doc__, page)


if __name__ == "__main__":
    main()
