"""The lesson's sbatch script with simulated SLURM commands, on nodes whose own names resolve to 127.0.1.1."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "solutions" / "13-final-lab" / "train.sbatch"

#: Commands in place of SLURM's and of Python. `srun` runs its command once for each node.
COMMANDS = {
    "scontrol": """
case "$1 $2" in
    "show hostnames") printf "node7\\nnode8\\n" ;;
    "show node") echo "   NodeAddr=10.0.0.${3#node} NodeHostName=$3" ;;
esac""",
    "srun": """
shift
for node in node7 node8; do SLURMD_NODENAME=$node ADDRESS=10.0.0.${node#node} "$@" || exit; done""",
    "ip": """
echo "1: lo    inet 127.0.0.1/8 scope host lo"
echo "2: eth0    inet 192.168.0.4/24 scope global eth0"
echo "3: ib0    inet $ADDRESS/24 scope global ib0" """,
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
        address = f"10.0.0.{7 + number}"
        assert line.split()[:2] == [f"node{7 + number}", used]
        assert f"--local-addr={address} --rdzv-conf=is_host={1 - number},read_timeout=300 " in line
        assert "--rdzv-endpoint=10.0.0.7:20042 " in line
    assert done.stdout.count("\n") == 2
    assert done.stderr == ""
