"""Run a Dask cluster for grading on SLURM until it is interrupted.

`python docs/slurm_cluster.py --host GRADER --jobs 4` keeps four jobs running, each a worker of the cluster.
docs/clusters.md shows the configuration of the jobs and the certificates.
"""

import argparse
import signal
import threading
from contextlib import suppress

from dask_jobqueue import SLURMCluster
from distributed import Security


def main() -> None:
    """Start the scheduler here, submit the jobs, and replace those that end, until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", required=True, help="the name of this machine on the cluster's network")
    parser.add_argument("--port", type=int, default=8786, help="the port of the scheduler (default: 8786)")
    parser.add_argument("--jobs", type=int, default=1, help="the number of jobs (default: 1)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with SLURMCluster(
        protocol="tls://",
        security=Security(require_encryption=True),  # with the certificates of Dask's configuration
        processes=1,
        nanny=False,  # A nanny's worker may not start processes, so it could not have sandboxes.
        worker_extra_args=["--memory-limit", "0", "--no-dashboard"],
        scheduler_options={"host": options.host, "port": options.port, "dashboard": False},
    ) as cluster:
        cluster.adapt(minimum_jobs=options.jobs, maximum_jobs=options.jobs)
        print(f"COURSE_CLUSTER={cluster.scheduler_address}", flush=True)
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
