"""A real Slurm of two nodes on this machine, with GPUs that are character devices: run as root.

    python tests/support/slurm_cluster.py up | down

Debian's slurm-wlm and munge (22.05). A device file a GPU makes Slurm set CUDA_VISIBLE_DEVICES; `config_overrides` lets
two cores claim to be more; two slurmd run on one host, each with `-N` and its own port.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

NODES, GPUS = 2, 4
HOME = Path("/var/lib/forktool-slurm")
CONFIG = HOME / "slurm.conf"
PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")

_CONFIG = """\
ClusterName=forktool
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until its old credential has expired, two minutes by default.
AuthInfo=cred_expire=5
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldPidFile={home}/slurmctld.pid
SlurmdPidFile={home}/slurmd.%n.pid
SlurmctldPort=46817
SlurmdSpoolDir={home}/spool.%n
StateSaveLocation={home}/state
SwitchType=switch/none
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0,sched_min_interval=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobRequeue=1
KillWait=5
SlurmdTimeout=10
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.%n.log
GresTypes=gpu
NodeName=b200-[0-{last}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[46821-{port}] CPUs=16 RealMemory=8000 \
Gres=gpu:b200:{gpus} Feature=blackwell,sm100 State=UNKNOWN
PartitionName=gpu Nodes=b200-[0-{last}] Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why no cluster can be started here."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"{absent[0]} is not installed (apt-get install slurm-wlm munge)"
    return None if os.geteuid() == 0 else "starting slurmd needs root"


@contextlib.contextmanager
def held() -> Iterator[None]:
    """The machine's one cluster for us alone: its ports and its names are fixed."""
    HOME.mkdir(parents=True, exist_ok=True)
    with (HOME / "lock").open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def up() -> None:
    """Start the cluster and wait until all nodes are idle."""
    host = socket.gethostname().partition(".")[0]
    for folder in (HOME, HOME / "state", *(HOME / f"spool.b200-{node}" for node in range(NODES))):
        folder.mkdir(parents=True, exist_ok=True)
    _munge()
    for number in range(GPUS):
        device = HOME / f"nvidia{number}"
        if not device.exists():
            # Major 1, minor 3: /dev/null under another name.
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    text = _CONFIG.format(host=host, home=HOME, last=NODES - 1, port=46820 + NODES, gpus=GPUS)
    CONFIG.write_text(text, encoding="ascii")
    gres = f"NodeName=b200-[0-{NODES - 1}] Name=gpu Type=b200 File={HOME}/nvidia[0-{GPUS - 1}]\n"
    (HOME / "gres.conf").write_text(gres, encoding="ascii")
    os.environ["SLURM_CONF"] = str(CONFIG)
    subprocess.run(["slurmctld", "-c", "-f", CONFIG], check=True)
    for node in range(NODES):
        start_node(node)
    deadline = time.monotonic() + 30
    while idle_nodes() < NODES:
        if time.monotonic() > deadline:
            raise TimeoutError((HOME / "slurmctld.log").read_text(encoding="utf-8")[-2000:])
        time.sleep(0.1)


def start_node(node: int) -> None:
    """Start one node's daemon."""
    subprocess.run(["slurmd", "-N", f"b200-{node}", "-f", CONFIG], check=True)


def kill_node(node: int) -> None:
    """Kill one node's daemon, and the job steps that it runs, as when the node loses power."""
    pid = int((HOME / f"slurmd.b200-{node}.pid").read_text(encoding="ascii"))
    os.kill(pid, signal.SIGKILL)
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes()
            if (
                words.startswith(b"slurmstepd")
                and f"b200-{node}".encode() in (process / "environ").read_bytes()
            ):
                os.kill(int(process.name), signal.SIGKILL)


def idle_nodes() -> int:
    """How many nodes wait for work."""
    done = subprocess.run(
        ["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], check=False, capture_output=True, text=True
    )
    return len(set(done.stdout.split()))


def down() -> None:
    """End the cluster's daemons; munged is left to the system."""
    os.environ["SLURM_CONF"] = str(CONFIG)
    subprocess.run(["scancel", "--quiet", "--user=root"], check=False, capture_output=True)
    time.sleep(0.5)
    for pidfile in HOME.glob("*.pid"):
        with contextlib.suppress(OSError, ValueError):
            os.kill(int(pidfile.read_text(encoding="ascii")), signal.SIGKILL)
        with contextlib.suppress(OSError):
            pidfile.unlink()


def _munge() -> None:
    if (
        Path("/run/munge/munge.socket.2").exists()
        and subprocess.run(["munge", "-n"], capture_output=True).returncode == 0
    ):
        return
    key = Path("/etc/munge/munge.key")
    if not key.is_file():
        key.parent.mkdir(parents=True, exist_ok=True)
        key.write_bytes(os.urandom(1024))
    for folder in ("/run/munge", "/var/log/munge", "/var/lib/munge", "/etc/munge"):
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        shutil.chown(path, "munge", "munge")
        path.chmod(0o755 if folder == "/run/munge" else 0o700)
    shutil.chown(key, "munge", "munge")
    key.chmod(0o400)
    subprocess.run(["su", "-s", "/bin/sh", "munge", "-c", "/usr/sbin/munged"], check=True)


if __name__ == "__main__":
    {"up": up, "down": down}[sys.argv[1]]()
