"""One module per stage of dvc.yaml: a page that reads parameters and artifacts, calls the library,
and writes artifacts."""

import signal
import sys

if (
    any(word.startswith("stages.") for word in sys.orig_argv)  # this process runs a stage
    and signal.getsignal(signal.SIGINT) is signal.default_int_handler
):
    # Until ``run_stage`` listens, Ctrl-C ends the process without the traceback of an import.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
