"""Hashes of the same small computations under each value of ``runtime.portable``, as table rows.

A row that two processors have in common is a value under which they agree. ``--library`` loads
``other_processor.c``, built as a library, so that this processor answers as another one would.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from cosearch.run.pins import PINS, this_processor

OTHERS = ("intel_avx2", "amd_avx2", "amd_avx512")
"""Processors as which ``other_processor.c`` can answer."""
HEAD = "| processor | portable | forward | updates | faiss | numpy | CPU seconds |"
COMPUTE = "--compute"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row for each processor and value."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", type=Path, help="other_processor.c, built")
    parser.add_argument("--processors", nargs="*", choices=OTHERS, default=OTHERS)
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument(COMPUTE, action="store_true", help="what each row runs")
    options = parser.parse_args(arguments)
    if options.compute:
        print(" | ".join(computed(options.updates)))
        return
    print(HEAD, "| --- | ---: | --- | --- | --- | --- | ---: |", sep="\n")
    own = this_processor()
    for name in ("", *(options.processors if options.library else ())):
        answers = {"FAKE_CPU": name, "LD_PRELOAD": str(options.library.resolve())} if name else {}
        shown = f"answers as {name}" if name else f"{own.maker} {own.model}"
        for portable, pins in PINS.items():
            print(f"| {shown} | {portable} | {_row(answers | pins, options.updates)} |", flush=True)


def _row(pins: Mapping[str, str], updates: int) -> str:
    known = {name for one in PINS.values() for name in one}
    kept = {name: value for name, value in os.environ.items() if name not in known}
    command = [sys.executable, "-m", "benchmarks.kernels", COMPUTE, "--updates", str(updates)]
    environment = kept | {"OMP_NUM_THREADS": "1"} | dict(pins)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def computed(updates: int) -> list[str]:
    """Hashes of a forward pass, of weights after updates, of two searches, of a matrix product; and
    the CPU seconds of the first two."""
    import faiss
    import numpy as np
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(0)
    shape = {"hidden_size": 128, "num_hidden_layers": 3, "num_attention_heads": 4}
    rest = {"num_key_value_heads": 4, "intermediate_size": 256, "tie_word_embeddings": False}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=832, **shape, **rest)).float()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    ids = torch.randint(0, 832, (8, 256))
    began = time.process_time()
    forward = _hash([model(input_ids=ids).logits.detach().numpy()])
    for _ in range(updates):
        optimizer.zero_grad()
        logits = model(input_ids=ids).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    seconds = time.process_time() - began
    weights = _hash([tensor.numpy() for tensor in model.state_dict().values()])
    vectors = np.random.default_rng(0).standard_normal((4096, 128), dtype=np.float32)
    index = faiss.IndexFlatIP(128)
    index.add(vectors)
    searches = [_hash([index.search(vectors[:count], 10)[0]]) for count in (400, 8)]
    product = _hash([vectors[:100] @ vectors.T])
    return [forward, weights, " ".join(searches), product, f"{seconds:.2f}"]


def _hash(arrays: Iterable[Any]) -> str:
    digest = sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()[:10]


if __name__ == "__main__":
    main()
