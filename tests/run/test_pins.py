"""Under which pins a process runs, and on which processors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cosearch.params.settings import load_settings
from cosearch.run import pins
from cosearch.run.pins import PINS, hold_pins, this_processor
from tests.settings import ROOT, write_params

SHOW = """
import json, os, sys
from pathlib import Path
from cosearch.params.settings import load_settings
from cosearch.run.pins import hold_pins
hold_pins(load_settings("tiny", Path("params.yaml")))
print(json.dumps([sys.argv[1:], dict(os.environ)]))
"""
XEON = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 207
model name\t: Intel(R) Xeon(R) Processor
flags\t\t: fpu sse2 avx2 fma

processor\t: 1
vendor_id\t: GenuineIntel
model\t\t: 1
"""
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd sve\nCPU part\t: 0xd40\n"


def pinned(folder: Path, portable: int) -> Path:
    def change(blocks: dict[str, Any]) -> None:
        blocks["profiles"]["tiny"]["runtime"]["portable"] = portable

    return write_params(folder, change)


@pytest.mark.parametrize("portable", sorted(PINS))
@pytest.mark.parametrize("before", [{}, {"MKL_CBWR": "SSE4_2"}])
def test_a_process_starts_again_under_its_pins_alone(
    tmp_path: Path, portable: int, before: dict[str, str]
) -> None:
    if PINS[portable] and not this_processor().pinnable:
        pytest.skip("this processor has no kernels to pin")
    pinned(tmp_path, portable)
    done = subprocess.run(
        [sys.executable, "-c", SHOW, "a", "b c"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | before,
        capture_output=True,
        text=True,
        check=True,
    )
    words, environment = json.loads(done.stdout)
    names = {name for one in PINS.values() for name in one}
    assert {name: environment[name] for name in names if name in environment} == PINS[portable]
    assert words == ["a", "b c"]


def test_a_processor_is_read_off_linux(tmp_path: Path) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text(XEON, "utf-8")
    found = this_processor(told)
    assert (found.maker, found.model) == ("GenuineIntel", "Intel(R) Xeon(R) Processor 6/207")
    assert found.pinnable
    told.write_text(ARM, "utf-8")
    assert not this_processor(told).pinnable
    assert this_processor(tmp_path / "none").maker


def test_pins_are_refused_where_the_kernels_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "cpuinfo"
    told.write_text(ARM, "utf-8")
    monkeypatch.setattr(pins.this_processor, "__defaults__", (told,))
    with pytest.raises(ValueError, match=r"tiny\.runtime\.portable: 2 needs .* AVX2"):
        hold_pins(load_settings("tiny", pinned(tmp_path, 2)))
