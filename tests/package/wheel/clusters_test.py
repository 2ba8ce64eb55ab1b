"""The files in examples/clusters: what they start, with the variables that Slurm and Kubernetes set."""

import contextlib
import json
import os
import pathlib
import re
import secrets
import signal
import socket
import subprocess
import sys
import time

import pytest

import ranks
import stacks
import tutti
from tutti import _programs

LIMIT = 120  # seconds
ROOT = pathlib.Path(__file__).resolve().parents[3]
CLUSTERS = ROOT / "examples/clusters"
# What a rank writes into FOLDER: who it is, and who its launcher's parent is.
PROGRAM = """
import array, json, os, pathlib, sys
import tutti.distributed as dist
dist.init_process_group(timeout=60)
x = array.array("d", [dist.get_rank() + 1.0])
dist.all_reduce(x)
assert x[0] == dist.get_world_size() * (dist.get_world_size() + 1) / 2
told = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK")}
told["arguments"] = sys.argv[1:]
pathlib.Path(os.environ["FOLDER"], f"rank{dist.get_rank()}").write_text(json.dumps(told))
dist.destroy_process_group()
"""
WAITS = """
import os, pathlib, time
pathlib.Path(os.environ["FOLDER"], "waits" + os.environ["RANK"]).write_text("")
time.sleep(600)
"""


@pytest.fixture
def tools(tmp_path):
    """A folder with programs that stand for those of a cluster."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "tuttirun").symlink_to(_programs.path_of("tuttirun"))
    (folder / "python3").symlink_to(sys.executable)
    return folder


def program_in(folder, name, text):
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


def environment(tools, folder, **more):
    return {"PATH": f"{tools}:/usr/bin:/bin", "HOME": str(folder), "FOLDER": str(folder), "PYTHON_EXEC": sys.executable,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": str(pathlib.Path(tutti.__file__).parent.parent), **more}


def told(folder, size):
    return [json.loads((folder / f"rank{rank}").read_text()) for rank in range(size)]


def free_job():
    """The number of a job whose port is free: it follows from the number."""
    for _ in range(100):
        job = secrets.randbelow(10000)
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("", 20000 + job))
            return job
    raise AssertionError("no port from 20000 to 29999 is free")


def until(condition):
    """Wait for it; a failure after LIMIT."""
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_slurm(tools, tmp_path):
    """srun is played by a loop over two nodes: it sets what Slurm's does, and each has its own number."""
    # The names are more than a pipe holds: with a reader that takes the first only, scontrol would end by SIGPIPE.
    program_in(tools, "scontrol", '#!/bin/bash\n[ "$*" = "show hostnames node[1-2]" ] && echo 127.0.0.1 && seq -f node%g 20000\n')
    program_in(tools, "srun", """#!/bin/bash
[ "$1 $2" = "--kill-on-bad-exit=1 --cpus-per-task=2" ] || exit 9
shift 2
for node in 0 1; do
  SLURM_NODEID=$node SLURM_PROCID=$node SLURM_NTASKS=2 SLURM_LOCALID=0 SLURM_STEP_NUM_NODES=2 "$@" &
  all+=($!)
done
for one in "${all[@]}"; do wait "$one" || exit 1; done
""")
    (tmp_path / "program.py").write_text(PROGRAM)
    stacks.output([CLUSTERS / "slurm.sbatch", "program.py", "--epochs", "3"], LIMIT, cwd=tmp_path, env=environment(
        tools, tmp_path, SLURM_JOB_ID=str(free_job()), SLURM_JOB_NODELIST="node[1-2]", SLURM_JOB_NUM_NODES="2",
        SLURM_NNODES="2", SLURM_CPUS_PER_TASK="2"))
    assert told(tmp_path, 4) == [
        {"RANK": str(rank), "WORLD_SIZE": "4", "LOCAL_RANK": str(rank % 2), "GROUP_RANK": str(rank // 2),
         "arguments": ["--epochs", "3"]} for rank in range(4)]


def test_slurm_asks_for_what_it_uses():
    text = (CLUSTERS / "slurm.sbatch").read_text()
    asked = dict(re.findall(r"^#SBATCH --([\w-]+)=(\S+)$", text, re.MULTILINE))
    assert asked["ntasks-per-node"] == "1" and {"nodes", "cpus-per-task"} <= asked.keys()
    stacks.output(["bash", "-n", CLUSTERS / "slurm.sbatch"], LIMIT)


def manifest(name):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (./dev deps python)")
    return yaml.safe_load((CLUSTERS / name).read_text())


def pods(name):
    """Of each kind of pod: how many there are, and its specification."""
    if name == "jobset.yaml":
        [job] = manifest(name)["spec"]["replicatedJobs"]
        job = job["template"]["spec"]
        assert job["completionMode"] == "Indexed" and job["completions"] == job["parallelism"]
        return [(job["completions"], job["template"]["spec"])]
    kinds = manifest(name)["spec"]["pytorchReplicaSpecs"]
    assert list(kinds) == ["Master", "Worker"]
    return [(kind["replicas"], kind["template"]["spec"]) for kind in kinds.values()]


def variables(name, pod, nodes, port, master):
    """What the system sets in a pod, beside the manifest's own."""
    if name == "jobset.yaml":
        return {"JOB_COMPLETION_INDEX": str(pod)}
    return {"RANK": str(pod), "WORLD_SIZE": str(nodes), "MASTER_PORT": str(port), "PET_NPROC_PER_NODE": "auto",
            "PET_NODE_RANK": str(pod), "MASTER_ADDR": "localhost" if pod == 0 else master}


def secret_like_kubernetes(folder):
    """A key as a Secret is mounted: a link to a link into a folder with the time in its name."""
    folder.mkdir()
    (folder / "..2026").mkdir()
    (folder / "..2026/key").write_bytes(secrets.token_bytes(32))
    (folder / "..2026/key").chmod(0o400)
    (folder / "..data").symlink_to("..2026")
    (folder / "key").symlink_to("..data/key")


def own_pids():
    """What makes a program process 1 of its own processes."""
    for words in (["unshare"], ["unshare", "-Ur"]):
        command = [*words, "--pid", "--fork", "--mount-proc", "--kill-child"]
        if stacks.run([*command, "true"], LIMIT).returncode == 0:
            return command
    pytest.skip("no pid namespace can be made here")


class Cluster:
    """The pods of a manifest, each in a pid namespace of its own on this host."""

    def __init__(self, name, program, tools, folder):
        secret_like_kubernetes(folder / "secret")
        (folder / "program.py").write_text(program)
        program_in(tools, "hostname", "#!/bin/sh\necho 127.0.0.1\n")
        # Pod 1 hears of the name of pod 0 at its third question.
        program_in(tools, "getent", '#!/bin/bash\necho asked >>"$FOLDER/asked$POD"\n'
                                    '[ "$POD" = 0 ] || [ "$(wc -l <"$FOLDER/asked$POD")" -ge 3 ]\n')
        nodes, port = sum(count for count, _ in pods(name)), ranks.free_port()
        self.pods, self.folder = [], folder
        for count, pod in pods(name):
            for _ in range(count):
                self.start(name, pod, tools, nodes, port)

    def start(self, name, pod, tools, nodes, port):
        number = len(self.pods)
        [container] = pod["containers"]
        own = {each["name"]: each["value"] for each in container.get("env", ())}
        if "MASTER_ADDR" in own:
            assert own["MASTER_ADDR"] == "tutti-nodes-0-0.tutti" and own["NODES"] == str(nodes)
            own["MASTER_ADDR"] = "127.0.0.1"
        else:
            port = str(port)
        [text] = container["args"]
        for inside, outside in (("/tutti-secret/", f"{self.folder}/secret/"),
                                (re.search(r"/examples/\w+\.py", text)[0], str(self.folder / "program.py")),
                                *([("tuttirun ", f"tuttirun --master-port {port} ")] if own else [])):
            assert inside in text
            text = text.replace(inside, outside)
        given = environment(tools, self.folder, POD=str(number), **variables(name, number, nodes, port, "127.0.0.1"))
        self.pods.append(subprocess.Popen([*own_pids(), *container["command"], text], env={**given, **own},
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                          start_new_session=True))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pod in self.pods:
            if pod.poll() is None:
                os.killpg(pod.pid, signal.SIGKILL)
            pod.communicate(timeout=LIMIT)

    def ended(self):
        """The exit codes and outputs."""
        try:
            said = [pod.communicate(timeout=LIMIT)[0] for pod in self.pods]
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{stacks.end(*(pod.pid for pod in self.pods))}\n"
                                 f"{[pod.communicate()[0] for pod in self.pods]}") from None
        return [(pod.returncode, text) for pod, text in zip(self.pods, said)]


@pytest.mark.parametrize("name", ["jobset.yaml", "pytorchjob.yaml"])
def test_kubernetes(name, tools, tmp_path):
    with Cluster(name, PROGRAM, tools, tmp_path) as cluster:
        for code, said in cluster.ended():
            assert code == 0, said
    assert told(tmp_path, 8) == [
        {"RANK": str(rank), "WORLD_SIZE": "8", "LOCAL_RANK": str(rank % 4), "GROUP_RANK": str(rank // 4),
         "arguments": []} for rank in range(8)]
    assert (tmp_path / "asked1").read_text().count("asked") == 3


@pytest.mark.parametrize("name", ["jobset.yaml", "pytorchjob.yaml"])
def test_a_pod_that_is_deleted_ends_its_ranks_and_the_job(name, tools, tmp_path):
    """Kubernetes sends SIGTERM to process 1, which ignores it unless it handles it: tuttirun does."""
    with Cluster(name, WAITS, tools, tmp_path) as cluster:
        until(lambda: len(list(tmp_path.glob("waits*"))) == 8)
        first = pathlib.Path(f"/proc/{cluster.pods[1].pid}/task/{cluster.pods[1].pid}/children").read_text().split()[0]
        os.kill(int(first), signal.SIGTERM)
        codes = [code for code, _ in cluster.ended()]
    assert all(codes)


@pytest.mark.parametrize("name", ["jobset.yaml", "pytorchjob.yaml"])
def test_manifests_hold_together(name):
    """The secret is closed to others, each mount has its volume, the image has what is called."""
    image = (ROOT / "Dockerfile").read_text()
    for _, pod in pods(name):
        [container] = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        assert volumes["secret"]["secret"]["defaultMode"] == 0o400
        assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
        assert container["image"] == "tutti" and "FROM debian:12-slim" in image  # which has bash, getent, hostname
        example = re.search(r"/examples/(\w+\.py)", container["args"][0])[1]
        assert (ROOT / "examples/python" / example).exists() and "COPY examples/python /examples" in image

