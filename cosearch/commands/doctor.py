"""``python -m cosearch doctor``: checks if this machine can run a profile, and names fixes.

Everything about the machine comes in through ``Probes``.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from cosearch.commands.console import open_console
from cosearch.commands.finding import Finding, amount
from cosearch.commands.gpu_host import examine_gpu_host
from cosearch.commands.machine import Card, Probes, real_probes
from cosearch.files.artifacts import Paths
from cosearch.params import blocks
from cosearch.params.plan import Least
from cosearch.params.settings import Settings, load_settings
from cosearch.plan.cost import Machine
from cosearch.plan.outlook import Outlook
from cosearch.plan.tables import settings_text
from cosearch.run.makers import expectations, maker_of
from cosearch.run.origin import DECIDING

PYTHON = ((3, 11), (3, 13))
"""The first Python version that the pins allow, and the first that they refuse."""
PACKAGES = ("torch", "transformers", "polars", "pyarrow", "pydantic", "dvc")
GPU_PACKAGES = ("vllm", "faiss-gpu")
FAISS = ("faiss-cpu", "faiss-gpu")
SETUP, SETUP_GPU = "make setup", "make setup EXTRAS=gpu,dev"


def diagnose(profile: str) -> bool:
    """Print what this machine has and lacks for the profile. Returns True if nothing is lacking."""
    findings = examine(load_settings(profile), Paths(profile), real_probes())
    return show_findings(findings, profile, open_console())


def examine(settings: Settings, paths: Paths, probes: Probes, root: Path = Path()) -> list[Finding]:
    """Check everything that the profile needs, in the order in which a user should fix it."""
    return [
        *_packages(settings, probes),
        *_hardware(settings, probes, root),
        *_models(settings, root),
        *_data(settings, probes, root),
        _outputs(paths, root),
        _pins(settings, probes),
        *_expected(settings, paths, probes, root),
    ]


def show_findings(findings: Sequence[Finding], profile: str, console: Console) -> bool:
    """Print the findings. Returns True if nothing is lacking."""
    if console.is_terminal:
        console.print(_table(findings, profile))
    else:
        for one in findings:
            fix = f"; fix: {one.fix}" if one.fix else ""
            line = f"{_mark(one)} {one.name}: {one.found}{fix}"
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    lacks = sum(one.fix is not None for one in findings)
    verdict = f"{lacks} lacking" if lacks else "nothing is lacking"
    console.print(f"profile {profile}: {verdict}", highlight=False)
    return not lacks


def _table(findings: Sequence[Finding], profile: str) -> Table:
    table = Table(title=f"Profile {profile} on this machine", title_justify="left")
    for name in ("", "what", "found", "fix"):
        table.add_column(name, overflow="fold")
    for one in findings:
        table.add_row(_mark(one), one.name, one.found, one.fix or "")
    return table


def _mark(finding: Finding) -> str:
    return "ok  " if finding.fix is None else "lack"


def _least(settings: Settings) -> Least:
    known = settings.file.plan.least
    if settings.profile not in known:
        raise ValueError(f"plan.least: no {settings.profile!r}; say what the profile needs")
    return known[settings.profile]


def _packages(settings: Settings, probes: Probes) -> Iterator[Finding]:
    low, high = PYTHON
    own = probes.python()
    fix = None if low <= own < high else f"install Python 3.11 or 3.12, remove .venv, {SETUP}"
    yield Finding("Python", ".".join(map(str, own)), fix)
    gpus = _least(settings).gpus
    setup = SETUP_GPU if gpus else SETUP
    for name in (*PACKAGES, *_trainer(settings), *(GPU_PACKAGES if gpus else ())):
        version = probes.version(name)
        yield Finding(name, version or "not installed", None if version else setup)
    if not gpus:
        found = [f"{name} {probes.version(name)}" for name in FAISS if probes.version(name)]
        yield Finding("faiss", ", ".join(found) or "not installed", None if found else setup)
    if all(probes.version(name) for name in FAISS):
        fix = "uninstall one: both are the module `faiss`"
        yield Finding("faiss-cpu beside faiss-gpu", "both installed", fix)


def _trainer(settings: Settings) -> tuple[str, ...]:
    """The package that trains the profile, if it is not torch. DeepSpeed runs on Linux only."""
    engine = settings.section(blocks.Train).engine
    return () if engine == "torch" else (engine,)


def _hardware(settings: Settings, probes: Probes, root: Path) -> Iterator[Finding]:
    least = _least(settings)
    yield _cores(settings, probes.cores())
    yield amount("memory", probes.memory(), least.memory, "GiB", "a machine with more memory")
    yield amount("free disk", probes.disk(), least.disk, "GB", "free space, or another disk")
    cards = probes.cards()
    shown = ", ".join(f"{card.name} {card.memory:.0f} GiB" for card in cards) or "none"
    fix = "a machine with GPUs; see `python -m cosearch plan`" if least.gpus and not cards else None
    yield Finding("GPUs", shown, fix)
    if least.gpus:
        yield _search(settings)
    if least.gpus and cards:
        yield _fit(settings, cards)
    if least.gpus:
        yield from examine_gpu_host(settings, probes, root)


def _cores(settings: Settings, cores: int) -> Finding:
    threads = settings.section(blocks.Index).threads
    few = threads > cores
    fix = f"a machine with more cores, or profiles.{settings.profile}.index.threads: {cores}"
    return Finding("CPU cores", f"{cores}, {threads} search", fix if few else None)


def _search(settings: Settings) -> Finding:
    """Check if the largest batch of searches ends well before an engine counts as hung."""
    queries, seconds = Outlook.of(settings).search_batch()
    allowed = settings.file.runtime.engine.deadline(queries)
    fix = f"more of profiles.{settings.profile}.index.threads, or of runtime.engine.request_s"
    found = f"{queries:,} queries at once take about {seconds:,.0f} s of {allowed:,.0f} s allowed"
    return Finding("search", found, fix if seconds > allowed / 2 else None)


def _fit(settings: Settings, cards: Sequence[Card]) -> Finding:
    """Check if joint training fits on the GPUs. All count as if they were the smallest one."""
    outlook = Outlook.of(settings)
    usual = settings.file.plan.gpus[settings.file.plan.gpu]
    gpu = usual.model_copy(update={"memory": min(card.memory for card in cards)})
    verdict = outlook.verdict(Machine("found", gpu, len(cards)))
    if not verdict.phases:
        return Finding("joint training", "memory is not planned: not all of vllm and deepspeed")
    if verdict.fits:
        return Finding("joint training", "fits into the GPUs' memory")
    fix = "more or larger GPUs"
    if verdict.others:
        fix = f"profiles.{settings.profile}: {settings_text(verdict.others[0])}"
    return Finding("joint training", "; ".join(verdict.reasons), fix)


def _models(settings: Settings, root: Path) -> Iterator[Finding]:
    for folder in settings.model_folders():
        path = root / folder
        lack = "no such folder"
        if path.is_dir():
            lack = "" if (path / "config.json").is_file() else "no config.json"
            lack = lack or ("" if any(path.glob("*.safetensors")) else "no *.safetensors")
        yield Finding(folder, lack or "present", models_command(settings) if lack else None)


def _data(settings: Settings, probes: Probes, root: Path) -> Iterator[Finding]:
    data = settings.section(blocks.Data)
    if data.source == "world":
        yield Finding("data", "generated by the stage `data`")
        return
    folder = root / (probes.variable("COSEARCH_DATA") or data.folder or ".")
    files = [source.path for row in data.sets.values() for source in row.files.values()]
    files += [name for source in data.lists.values() for name in source.files()]
    for name in dict.fromkeys(filter(None, [*files, data.corpus, data.reference_run])):
        path = folder / name
        size = path.stat().st_size if path.is_file() else None
        found = "missing" if size is None else f"{size:,} bytes"
        yield Finding(f"data: {name}", found, _fetch_data(settings) if size is None else None)


def _outputs(paths: Paths, root: Path) -> Finding:
    done = (root / paths.root).is_dir()
    return Finding("outputs", f"{paths.root}: {'some are there' if done else 'none yet'}")


def _pins(settings: Settings, probes: Probes) -> Finding:
    """Check if the processor has the kernels of the profile's pins."""
    portable, own = settings.section(blocks.Runtime).portable, probes.processor()
    key = f"profiles.{settings.profile}.runtime.portable"
    fix = f"an x86-64 processor with AVX2 and FMA, or {key}: 0"
    found = f"{own.maker} {own.model}, runtime.portable {portable}"
    return Finding("processor", found, fix if portable and not own.pinnable else None)


def _expected(settings: Settings, paths: Paths, probes: Probes, root: Path) -> Iterator[Finding]:
    """Say of each scope with committed results how near to them a run here will come."""
    packages = {name: found for name in DECIDING if (found := probes.version(name))}
    portable = settings.section(blocks.Runtime).portable
    here = maker_of(probes.processor(), portable, packages)
    told = expectations(paths, here, root)
    if not told:
        yield Finding("committed results", "no record of their machine; expect them within noise")
    for scope, why in told.items():
        found = f"expect them within noise: {why}" if why else "expect the same bytes"
        yield Finding(f"committed {scope}", found)


def models_command(settings: Settings) -> str:
    """The command that provides the models of the profile."""
    if settings.section(blocks.Data).source == "world":
        return "git checkout models, or make base-models"
    if settings.profile in settings.file.hub:
        return f"make {settings.profile}-data"
    return f"HF_HUB_OFFLINE=0 python -m stages.base_models --profile {settings.profile}"


def _fetch_data(settings: Settings) -> str:
    """The command or advice that provides the data of the profile."""
    if settings.profile in settings.file.hub:
        return f"make {settings.profile}-data"
    return "put it there, or name its folder: COSEARCH_DATA=folder"
