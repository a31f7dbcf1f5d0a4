"""`make gpu-smoke`: one tiny joint round on a GPU, with checks of losses and weight hand-over.

Without a GPU it says that it did not run, and succeeds: nothing was found to be wrong.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import faiss
import torch

from tests.joint_round import (
    SAMPLED_BY_VLLM,
    TRAINED_BY_DEEPSPEED,
    play_round,
    prepare_project,
)

SEARCHED_ON_GPUS = {"index": {"gpus": {"spread": False, "float16": False}}}
SAMPLED = {
    role: block | {"vllm": block["vllm"] | {"transfer": "ipc"}}
    for role, block in SAMPLED_BY_VLLM.items()
}
ENGINES = SAMPLED | TRAINED_BY_DEEPSPEED | SEARCHED_ON_GPUS
LIMIT = 480
"""Seconds that the whole may take."""


def main() -> None:
    """Run the round and exit with 1 if anything is wrong with it."""
    if not torch.cuda.is_available():
        print("gpu-smoke: DID NOT RUN: this machine shows no GPU; nothing was checked")
        return
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(prepare_project(Path(folder), ENGINES).folder)
        found = play_round()
        os.chdir("/")
    faults = found.faults()
    if not getattr(faiss, "get_num_gpus", int)():
        faults.append("faiss sees no GPU; is faiss-gpu installed?")
    for role, sampler in found.samplers.items():
        print(f"{role}: sampler {sampler.weights} updates old, {sampler.gap:.2g} nats off")
        sampler.sleep(discard=False)
        sampler.close()
    for name, value in sorted(found.metrics.items()):
        if name.endswith(("loss", "gap_mean", "gap_max")):
            print(f"{name} = {value:.6g}")
    seconds = time.monotonic() - start
    if seconds > LIMIT:
        faults.append(f"it took {seconds:.0f} s, more than {LIMIT}")
    print(f"gpu-smoke: {'FAILED' if faults else 'passed'} in {seconds:.0f} s")
    if faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
