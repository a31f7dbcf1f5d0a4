"""Deploy the reproduce flow and work for it: ``python -m flows.serve``.

Registers the deployment ``reproduce/cosearch`` with its parameters and, where one is given, a
schedule, in a work pool of type ``process``; then runs what is asked for there, in this folder, one
run at a time. Cancelling a run in the UI ends its stages; running it again goes on.
"""

import argparse
from pathlib import Path
from typing import Any

from prefect import flow, get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.exceptions import ObjectAlreadyExists
from prefect.workers.process import ProcessWorker

from flows.reproduce import profile_of

ENTRY = "flows/reproduce.py:reproduce"
NAME = "cosearch"


def make_pool(pool: str) -> None:
    """Create the work pool if it does not exist."""
    with get_client(sync_client=True) as client:
        try:
            client.create_work_pool(WorkPoolCreate(name=pool, type="process"))
        except ObjectAlreadyExists:
            return


def deploy(pool: str, cron: str | None) -> None:
    """Register the deployment. A scheduled run has the default parameters of the flow."""
    source: Any = flow.from_source(str(Path.cwd()), ENTRY)
    source.deploy(
        name=NAME,
        work_pool_name=pool,
        parameters={"profile": profile_of(Path())},
        cron=cron,
        print_next_steps=False,
        ignore_warnings=True,
    )


def main() -> None:
    """Run from the command line, until stopped."""
    parser = argparse.ArgumentParser(prog="python -m flows.serve", description=__doc__)
    parser.add_argument("--pool", default=NAME, help=f"work pool (default {NAME})")
    parser.add_argument("--cron", help="schedule, such as '0 3 * * *'; none by default")
    parser.add_argument("--register-only", action="store_true", help="start no worker")
    arguments = parser.parse_args()
    make_pool(arguments.pool)
    deploy(arguments.pool, arguments.cron)
    print(f"deployed reproduce/{NAME} in work pool {arguments.pool}")
    if not arguments.register_only:
        import asyncio

        asyncio.run(ProcessWorker(work_pool_name=arguments.pool, limit=1).start())


if __name__ == "__main__":
    main()
