"""The lesson's sbatch script with simulated SLURM commands, on nodes whose own names resolve to 127.0.1.1."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "solutions" / "13-final-lab" / "train.sbatch"

#: Replacements for the script's commands and for Python. `srun` runs its command once for each node.
COMMANDS = {
    "scontrol": """
case "$1 $2" in
    "show hostnames") printf "node7\\nnode8\\n" ;;
    "show node") echo "   NodeAddr=$3 NodeHostName=$3" ;;
esac""",
    "getent": """
if [ "$2" = "$SLURMD_NODENAME" ]; then echo "127.0.1.1 STREAM"; else echo "10.0.0.${2#node} STREAM"; fi""",
    "srun": """
shift
for node in node7 node8; do SLURMD_NODENAME=$node "$@" || exit; done""",
    "ip": """
case "$5" in
    127.*) echo "local $5 dev lo src $5 uid 1000" ;;
    *) echo "$5 dev ib0 src 10.0.0.${SLURMD_NODENAME#node} uid 1000" ;;
esac""",
    "python": 'echo "$SLURMD_NODENAME" "$GLOO_SOCKET_IFNAME" "$@"',
}


@pytest.mark.parametrize(("chosen", "used"), [("", "ib0"), ("eth0", "eth0")])
def test_the_first_node_is_the_host_and_gloo_uses_the_network_of_slurm_s_addresses(
    tmp_path: Path, chosen: str, used: str
) -> None:
    for name, source in COMMANDS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{source.strip()}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    slurm = {"JOB_ID": "42", "JOB_NODELIST": "node[7-8]", "NNODES": "2", "CPUS_PER_TASK": "8"}
    environment = {f"SLURM_{name}": value for name, value in slurm.items()}
    environment["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
    if chosen:
        environment["GLOO_SOCKET_IFNAME"] = chosen
    done = subprocess.run(
        ["bash", str(SCRIPT), "my.yaml"], env=environment, capture_output=True, text=True, check=True
    )
    for number, line in enumerate(done.stdout.splitlines()):
        address = f"node{7 + number}"
        assert line.split()[:2] == [address, used]
        assert f"--local-addr={address} --rdzv-conf=is_host={1 - number},read_timeout=300 " in line
        assert "--rdzv-endpoint=node7:20042 " in line
    assert done.stdout.count("\n") == 2
    assert done.stderr == ""
