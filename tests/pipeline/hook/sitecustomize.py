"""Python imports this module by itself where its folder is on the path: a stage of the micro
project then leaves the names of all modules that it has loaded in ``.imports/STAGE@ROW.json``."""

import atexit
import json
import sys
from pathlib import Path


def tell() -> None:
    """Write the loaded modules of this project, if this process is a stage."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    name = getattr(spec, "name", "")
    if not name.startswith("stages."):
        return
    instance = "@".join([name.removeprefix("stages."), *sys.argv[4:5]])
    loaded = sorted(
        module for module in list(sys.modules) if module.split(".")[0] in ("cosearch", "stages")
    )
    folder = Path(".imports")
    folder.mkdir(exist_ok=True)
    (folder / f"{instance}.json").write_text(json.dumps(loaded), "utf-8")


atexit.register(tell)
