"""Findings of the doctor on described machines."""

import io
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cosearch.commands import doctor
from cosearch.commands.finding import Finding
from cosearch.commands.gpu_host import examine_gpu_host
from cosearch.commands.machine import Card, Probes, ask_nvidia, read_cards, real_probes
from cosearch.files.artifacts import Paths, write_json
from cosearch.params.settings import load_settings
from cosearch.plan.outlook import Outlook
from cosearch.run.makers import maker_of
from cosearch.run.origin import DECIDING
from cosearch.run.pins import Processor
from tests.settings import write_params

ROOT = Path(__file__).parents[2]
CPU_PACKAGES = {name: "1.0" for name in (*doctor.PACKAGES, "faiss-cpu")}
GPU_PACKAGES = {name: "1.0" for name in (*doctor.PACKAGES, *doctor.GPU_PACKAGES, "deepspeed")}
INTEL = Processor("GenuineIntel", "Xeon 6/207", frozenset({"avx2", "fma", "avx512f"}))
AMD = Processor("AuthenticAMD", "EPYC 25/1", frozenset({"avx2", "fma"}))
ARM = Processor("aarch64", "", frozenset())


@dataclass
class Described:
    """A machine that is described by values."""

    versions: dict[str, str] = field(default_factory=lambda: dict(CPU_PACKAGES))
    gpus: tuple[Card, ...] = ()
    gib: float = 64.0
    gigabytes: float = 100.0
    interpreter: tuple[int, int] = (3, 11)
    variables: dict[str, str] = field(default_factory=dict)
    processors: int = 64
    scratch: float = 100.0
    programs: tuple[str, ...] = ()
    nvidia: str | None = "580.65.06"
    libc: str | None = "2.34"
    chip: Processor = INTEL

    def python(self) -> tuple[int, int]:
        return self.interpreter

    def version(self, package: str) -> str | None:
        return self.versions.get(package)

    def cards(self) -> tuple[Card, ...]:
        return self.gpus

    def cores(self) -> int:
        return self.processors

    def processor(self) -> Processor:
        return self.chip

    def memory(self) -> float:
        return self.gib

    def disk(self) -> float:
        return self.gigabytes

    def variable(self, name: str) -> str | None:
        return self.variables.get(name)

    def temporary(self) -> tuple[str, float]:
        return "tmp", self.scratch

    def program(self, name: str) -> bool:
        return name in self.programs

    def interfaces(self) -> tuple[str, ...]:
        return ("eth0", "ib0")

    def driver(self) -> str | None:
        return self.nvidia

    def glibc(self) -> str | None:
        return self.libc


def examined(profile: str, probes: Probes, root: Path = ROOT) -> list[Finding]:
    settings = load_settings(profile, ROOT / "params.yaml")
    return doctor.examine(settings, Paths(profile), probes, root)


def lacks(findings: list[Finding]) -> dict[str, str]:
    return {one.name: one.fix for one in findings if one.fix}


def shown(findings: list[Finding], *, terminal: bool) -> tuple[bool, str]:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=200)
    verdict = doctor.show_findings(findings, "tiny", console)
    return verdict, console.file.getvalue()  # type: ignore[attr-defined]


def filled(root: Path) -> None:
    """Write the models and data of profile paper that the doctor checks."""
    settings = load_settings("paper", ROOT / "params.yaml").file.profiles["paper"]
    for folder in filter(None, settings.models.model_dump().values()):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder / "config.json").write_text("{}")
        (root / folder / "model.safetensors").write_text("")
    names = [f.path for row in settings.data.sets.values() for f in row.files.values()]
    names += [name for source in settings.data.lists.values() for name in source.files()]
    for name in [*names, settings.data.corpus]:
        path = root / "data/paper" / str(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")


def test_the_shipped_profile_runs_on_a_small_machine() -> None:
    assert lacks(examined("tiny", Described(gib=4.0, gigabytes=5.0))) == {}


@pytest.mark.parametrize(
    ("probes", "name", "fix"),
    [
        (Described(versions={**CPU_PACKAGES, "torch": ""}), "torch", "make setup"),
        (Described(versions=dict.fromkeys(doctor.PACKAGES, "1.0")), "faiss", "make setup"),
        (Described({**CPU_PACKAGES, "faiss-gpu": "1.0"}), "faiss-cpu beside faiss-gpu", "one"),
        (Described(gib=3.9), "memory", "more memory"),
        (Described(gigabytes=4.9), "free disk", "free space"),
        (Described(interpreter=(3, 13)), "Python", "3.11 or 3.12"),
        (Described(interpreter=(3, 10)), "Python", "3.11 or 3.12"),
    ],
)  # fmt: skip
def test_one_lack_is_named_alone_with_its_fix(probes: Described, name: str, fix: str) -> None:
    found = lacks(examined("tiny", probes))
    assert list(found) == [name] and fix in found[name]


def test_an_empty_machine_lacks_all_that_profile_paper_needs(tmp_path: Path) -> None:
    found = lacks(examined("paper", Described(), tmp_path))
    assert {"vllm", "deepspeed", "faiss-gpu", "GPUs", "memory", "free disk"} <= set(found)
    assert {"models/paper/large", "data: wiki-18.jsonl", "data: questions/nq/train.jsonl"} <= set(
        found
    )
    assert "faiss" not in found
    assert "EXTRAS=gpu" in found["vllm"] and "make paper-data" in found["models/paper/large"]


@pytest.mark.parametrize(
    ("gpus", "lacking", "words"),
    [
        ((Card("card", 79.6),) * 8, False, "fits"),
        ((Card("card", 79.6),) * 4, True, "8 replicas on 8 GPUs, and there are 4"),
        ((Card("card", 24.0),) * 8, True, "rollout needs"),
        ((*[Card("card", 79.6)] * 7, Card("small", 24.0)), True, "rollout needs"),
    ],
)
def test_gpus_are_held_against_the_plan(
    tmp_path: Path, gpus: tuple[Card, ...], lacking: bool, words: str
) -> None:
    filled(tmp_path)
    probes = Described(GPU_PACKAGES, gpus, gib=1024.0, gigabytes=9000.0)
    findings = examined("paper", probes, tmp_path)
    assert set(lacks(findings)) == ({"joint training"} if lacking else set())
    assert words in next(one.found for one in findings if one.name == "joint training")


@pytest.mark.parametrize(
    ("changes", "name", "words"),
    [
        ({"nvidia": "575.57.08"}, "NVIDIA driver", "CUDA 13"),
        ({"nvidia": None}, "NVIDIA driver", "CUDA 13"),
        ({"libc": "2.31"}, "glibc", "newer C library"),
        ({"libc": None}, "glibc", "newer C library"),
    ],
)
def test_what_a_host_with_gpus_lacks_is_named(
    tmp_path: Path, changes: dict[str, Any], name: str, words: str
) -> None:
    filled(tmp_path)
    probes = Described(GPU_PACKAGES, (Card("card", 79.6),) * 8, 1024.0, 9000.0, **changes)
    found = lacks(examined("paper", probes, tmp_path))
    assert list(found) == [name] and words in found[name]


def test_weights_that_go_by_a_file_need_room_for_it(tmp_path: Path) -> None:
    def by_file(params: dict[str, Any]) -> None:
        params["profiles"]["paper"]["ranker"]["vllm"]["transfer"] = "file"

    settings = load_settings("paper", write_params(tmp_path, by_file))
    found = lacks(list(examine_gpu_host(settings, Described(scratch=15.0), tmp_path)))
    assert found == {"temporary files in tmp": "set TMPDIR to a folder with more space"}
    assert lacks(list(examine_gpu_host(settings, Described(), tmp_path))) == {}


def test_ranks_on_several_nodes_need_a_shell_and_named_interfaces(tmp_path: Path) -> None:
    folder = tmp_path / "profiles/paper"
    folder.mkdir(parents=True)

    def network(launch: str, probes: Described) -> dict[str, str]:
        (folder / "profile.yaml").write_text(f"profile: paper\nlaunch: {launch}\n")
        settings = load_settings("paper", ROOT / "params.yaml")
        return lacks(list(examine_gpu_host(settings, probes, tmp_path)))

    hosts = "deepspeed --hostfile hostfile --no_local_rank --module"
    names = ["GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"]
    assert list(network(hosts, Described())) == ["pdsh", *names]
    assert list(network(f"{hosts} --launcher slurm", Described())) == names
    assert list(network("srun torchrun --nnodes 2 -m", Described())) == names
    assert network("deepspeed --no_local_rank --module", Described()) == {}
    named = Described(variables=dict.fromkeys(names, "ib"), programs=("pdsh",))
    assert network(hosts, named) == {}
    wrong = Described(variables=dict.fromkeys(names, "eth7"), programs=("pdsh",))
    assert "one of eth0, ib0" in network(hosts, wrong)["GLOO_SOCKET_IFNAME"]


def test_the_memory_asked_for_is_what_the_plan_needs() -> None:
    settings = load_settings("paper", ROOT / "params.yaml")
    outlook = Outlook.of(settings)
    planned = outlook.verdict(outlook.machine()).host_memory
    assert planned <= settings.file.plan.least["paper"].memory <= 1.1 * planned


def test_the_fix_for_too_few_gpus_is_a_setting(tmp_path: Path) -> None:
    filled(tmp_path)
    probes = Described(GPU_PACKAGES, (Card("card", 79.6),) * 4, gib=1024.0, gigabytes=9000.0)
    fix = lacks(examined("paper", probes, tmp_path))["joint training"]
    assert fix.startswith("profiles.paper: train.deepspeed.offload_optimizer: true, agent.vllm.")
    probes = Described(GPU_PACKAGES, (Card("card", 8.0),), gib=1024.0, gigabytes=9000.0)
    fix = lacks(examined("paper", probes, tmp_path))["joint training"]
    assert fix == "more or larger GPUs"


def test_searches_are_held_against_cores_and_deadline(tmp_path: Path) -> None:
    filled(tmp_path)
    cards = (Card("card", 79.6),) * 8
    few = Described(GPU_PACKAGES, cards, gib=1024.0, gigabytes=9000.0, processors=8)
    assert lacks(examined("paper", few, tmp_path))["CPU cores"].endswith("index.threads: 8")

    def one_thread(params: dict[str, Any]) -> None:
        params["profiles"]["paper"]["index"]["threads"] = 1
        params["runtime"]["engine"]["request_s"] = 0

    settings = load_settings("paper", write_params(tmp_path, one_thread))
    found = lacks(doctor.examine(settings, Paths("paper"), few, tmp_path))
    assert "profiles.paper.index.threads" in found["search"]


def test_a_damaged_model_folder_is_a_lack(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "models/paper/large/model.safetensors").unlink()
    (tmp_path / "models/paper/small/config.json").unlink()
    found = {one.name: one.found for one in examined("paper", Described(), tmp_path) if one.fix}
    assert found["models/paper/large"] == "no *.safetensors"
    assert found["models/paper/small"] == "no config.json"


def test_data_are_looked_for_where_the_environment_says(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "data/paper").rename(tmp_path / "elsewhere")
    lost = lacks(examined("paper", Described(), tmp_path))
    probes = Described(variables={"COSEARCH_DATA": str(tmp_path / "elsewhere")})
    assert "data: wiki-18.jsonl" in lost
    assert "data: wiki-18.jsonl" not in lacks(examined("paper", probes, tmp_path))


def test_a_profile_without_needs_is_refused(tmp_path: Path) -> None:
    path = write_params(tmp_path, lambda params: params["plan"]["least"].pop("tiny"))
    settings = load_settings("tiny", path)
    with pytest.raises(ValueError, match=r"plan\.least: no 'tiny'"):
        doctor.examine(settings, Paths("tiny"), Described())


def test_every_profile_says_what_it_needs() -> None:
    file = load_settings("tiny", ROOT / "params.yaml").file
    assert set(file.plan.least) == set(file.profiles)


def test_findings_are_lines_in_a_pipe_and_a_table_in_a_terminal() -> None:
    good, bad = Finding("torch", "1.0"), Finding("faiss", "not installed", "make setup")
    assert shown([good], terminal=False) == (
        True,
        "ok   torch: 1.0\nprofile tiny: nothing is lacking\n",
    )
    verdict, text = shown([good, bad], terminal=False)
    assert not verdict
    assert text.splitlines()[1:] == [
        "lack faiss: not installed; fix: make setup",
        "profile tiny: 1 lacking",
    ]
    assert "┃" in shown([good, bad], terminal=True)[1]


def test_what_nvidia_smi_says_is_read() -> None:
    text = "NVIDIA H100 80GB HBM3, 81559\nNVIDIA H100, PCIe, 81920\n\n"
    assert read_cards(text) == [
        Card("NVIDIA H100 80GB HBM3", 81559 / 1024),
        Card("NVIDIA H100, PCIe", 80.0),
    ]


def test_this_machine_answers() -> None:
    probes = real_probes()
    assert probes.python() >= (3, 11) and probes.cores() >= 1
    assert probes.memory() > 0 and probes.disk() > 0
    assert probes.version("polars") and probes.version("no-such-package") is None
    assert isinstance(probes.cards(), list) and probes.temporary()[1] > 0
    assert probes.program("sh") and not probes.program("no-such-program")
    assert "lo" not in probes.interfaces() and ask_nvidia("no-such-value") == ""


def expected(root: Path, portable: int, probes: Probes) -> str:
    """What the doctor expects of results that an Intel processor made under ``portable``."""

    def pinned(blocks: dict[str, Any]) -> None:
        blocks["profiles"]["tiny"]["runtime"]["portable"] = portable

    settings = load_settings("tiny", write_params(root, pinned))
    packages = {name: "1.0" for name in DECIDING if name in CPU_PACKAGES}
    record = {"core_1": [maker_of(INTEL, portable, packages)]}
    write_json(root / Paths("tiny").made_by, record)
    found = doctor.examine(settings, Paths("tiny"), probes, root)
    return next(one.found for one in found if one.name == "committed core_1")


@pytest.mark.parametrize(
    ("portable", "chip", "words"),
    [
        (0, INTEL, "expect the same bytes"),
        (0, replace(INTEL, model="Xeon 6/85"), "within noise: made on GenuineIntel Xeon 6/207"),
        (0, replace(INTEL, features=INTEL.features - {"avx512f"}), "within noise: made on"),
        (1, replace(INTEL, model="Xeon 6/85"), "expect the same bytes"),
        (1, AMD, "within noise: made on GenuineIntel"),
        (2, AMD, "expect the same bytes"),
        (2, ARM, "within noise: this processor lacks AVX2"),
    ],
)
def test_the_doctor_says_what_to_expect_of_committed_results(
    tmp_path: Path, portable: int, chip: Processor, words: str
) -> None:
    assert words in expected(tmp_path, portable, Described(chip=chip))


def test_other_versions_give_other_bytes(tmp_path: Path) -> None:
    probes = Described(versions=CPU_PACKAGES | {"torch": "1.1"})
    assert expected(tmp_path, 2, probes) == "expect them within noise: other versions of torch"


def test_results_without_a_record_promise_nothing(tmp_path: Path) -> None:
    found = {one.name: one.found for one in examined("tiny", Described(), tmp_path)}
    assert "no record" in found["committed results"]
