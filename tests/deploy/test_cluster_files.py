"""The files in `deploy/cluster/`: what can be checked without Slurm, Kubernetes and a cloud."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from rookery.cli.main import build_parser

FOLDER = Path(__file__).parents[2] / "deploy" / "cluster"
SCRIPTS = [FOLDER / "slurm.sbatch", FOLDER / "laptop.sh"]
COMMAND = re.compile(r"(?<![\w/.-])rookery ((?:train|search|resume|doctor|league) [^\n#]*)")

# What KubeRay requires of the fields that the file uses, in JSON Schema. Others are errors.
POD = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["containers"],
            "properties": {
                "containers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["name", "image", "resources"],
                        "additionalProperties": False,
                        "properties": {
                            "name": {"type": "string", "pattern": "^[a-z0-9-]+$"},
                            "image": {"type": "string", "pattern": "^[^:]+:[^:]+$"},
                            "env": {"type": "array", "items": {"required": ["name", "value"], "properties": {
                                "name": {"type": "string"}, "value": {"type": "string"}}}},
                            "envFrom": {"type": "array"},
                            "resources": {"type": "object", "required": ["requests", "limits"]},
                        },
                    },
                }
            },
        }
    },
}  # fmt: skip
STRINGS = {"type": "object", "additionalProperties": {"type": "string"}}
COUNT = {"type": "integer", "minimum": 0}
RAY_JOB = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayJob"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "required": ["entrypoint", "rayClusterSpec"],
            "additionalProperties": False,
            "properties": {
                "entrypoint": {"type": "string"},
                "shutdownAfterJobFinishes": {"type": "boolean"},
                "ttlSecondsAfterFinished": COUNT,
                "submissionMode": {"enum": ["K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"]},
                "rayClusterSpec": {
                    "type": "object",
                    "required": ["headGroupSpec", "workerGroupSpecs"],
                    "additionalProperties": False,
                    "properties": {
                        "enableInTreeAutoscaling": {"type": "boolean"},
                        "autoscalerOptions": {"type": "object", "properties": {"idleTimeoutSeconds": COUNT}},
                        "headGroupSpec": {
                            "type": "object",
                            "required": ["rayStartParams", "template"],
                            "additionalProperties": False,
                            "properties": {"rayStartParams": STRINGS, "template": POD},
                        },
                        "workerGroupSpecs": {
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "type": "object",
                                "required": ["groupName", "rayStartParams", "template"],
                                "additionalProperties": False,
                                "properties": {
                                    "groupName": {"type": "string"}, "replicas": COUNT, "minReplicas": COUNT,
                                    "maxReplicas": COUNT, "rayStartParams": STRINGS, "template": POD,
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}  # fmt: skip


def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


def test_commands_of_rookery_exist() -> None:
    """Every command line that the files name, in comments too; `...` and variables stand for nothing."""
    found = []
    for file in sorted(FOLDER.iterdir()):
        text = re.sub(r"\n\s+--", " --", file.read_text())
        for words in COMMAND.findall(text):
            if "$" not in words:
                found.append(words)
                build_parser().parse_args(shlex.split(words.strip().removesuffix('"')))
    assert len(found) >= 4, found


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_understood(script: Path) -> None:
    """By bash, and by shellcheck where it is installed."""
    checks = [["bash", "-n"], *([["shellcheck", "-s", "bash"]] if shutil.which("shellcheck") else [])]
    for check in checks:
        assert subprocess.run([*check, str(script)], check=False).returncode == 0


def stand_ins(folder: Path, rookery: str) -> dict[str, str]:
    """Commands of Slurm and Ray that write down how they were called; returns the environment to find them."""
    folder.mkdir()
    record = f'echo "$(basename "$0") $*" >> {folder}/calls\n'
    bodies = {
        "scontrol": "printf 'one\\ntwo\\nthree\\n'\n",
        "srun": 'while [[ $1 == --* ]]; do shift; done; "$@"\n',
        "hostname": "echo 10.0.0.1 fe80::1\n",
        "ray": record,
        "sleep": "",
        "rookery": record + rookery,
    }
    for name, body in bodies.items():
        (folder / name).write_text(f"#!/bin/bash\n{body}")
        (folder / name).chmod(0o755)
    slurm = {"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_ID": "41", "SLURM_CPUS_PER_TASK": "8"}
    return {**os.environ, **slurm, "PATH": f"{folder}:{os.environ['PATH']}"}


def calls(folder: Path, count: int = 1) -> list[str]:
    """As many as there will be: what a script started beside itself may be called after its end."""
    deadline = time.monotonic() + 30
    while len(found := (folder / "calls").read_text().splitlines()) < count and time.monotonic() < deadline:
        time.sleep(0.01)
    return found


def test_the_slurm_job_starts_ray_on_every_node(tmp_path: Path) -> None:
    """One head, two workers that find it, and the command on Ray; its exit status is the job's."""
    variables = stand_ins(tmp_path / "bin", '[ "$1" = doctor ] || exit 3\n')
    with (tmp_path / "bin/ray").open("a") as ray_script:
        ray_script.write(f'echo "$RAY_AUTH_MODE $RAY_AUTH_TOKEN" >> {tmp_path}/tokens\n')
    words = ["bash", str(SCRIPTS[0]), "search", "my_config.toml", "--n-trials", "5"]
    assert subprocess.run(words, env=variables, check=False, timeout=30).returncode == 3
    told = calls(tmp_path / "bin", 5)
    ray = [call for call in told if call.startswith("ray ")]
    assert len(ray) == 3 and sum("--head" in call for call in ray) == 1
    (token,) = set((tmp_path / "tokens").read_text().splitlines())  # one for all nodes
    assert re.fullmatch("token [0-9a-f]{64}", token)
    assert sum("--address=10.0.0.1:20041" in call for call in ray) == 2 and all("--num-cpus=8" in call for call in ray)
    assert [call for call in told if call.startswith("rookery ")] == [  # Ray starts beside them, in any order
        "rookery doctor --on ray --address 10.0.0.1:20041",
        "rookery search my_config.toml --n-trials 5 --on ray --address 10.0.0.1:20041",
    ]


def test_the_slurm_job_hands_on_the_signal(tmp_path: Path) -> None:
    """The command saves, and the job waits for it."""
    trap = f'trap "echo saved >> {tmp_path}/saved; exit 143" TERM\ntouch {tmp_path}/ready\n'
    saves = f'[ "$1" = doctor ] && exit\n{trap}'
    variables = stand_ins(tmp_path / "bin", saves + "for k in {1..200}; do /bin/sleep 0.1; done\n")
    job = subprocess.Popen(["bash", str(SCRIPTS[0]), "train", "CartPole-v1"], env=variables)
    try:
        while not (tmp_path / "ready").exists():
            assert job.poll() is None
        job.terminate()
        assert job.wait(30) == 143 and (tmp_path / "saved").read_text() == "saved\n"
    finally:
        job.kill()


@pytest.mark.parametrize(
    ("words", "told"), [(["head", "10.0.0.1"], "--head"), (["worker", "10.0.0.1"], "10.0.0.1:6379")]
)
def test_the_laptops_script(tmp_path: Path, words: list[str], told: str) -> None:
    """Starts a head or a worker, and says how it is used."""
    variables = stand_ins(tmp_path / "bin", "")
    subprocess.run(["bash", str(SCRIPTS[1]), *words], env=variables, check=True)
    assert told in calls(tmp_path / "bin", 1 + ("head" in words))[-1]
    wrong = subprocess.run(["bash", str(SCRIPTS[1])], env=variables, check=False, capture_output=True, text=True)
    assert wrong.returncode == 2 and "usage" in wrong.stderr


def test_the_autoscalers_file_is_valid_for_ray() -> None:
    """By Ray's own schema and rules; workers may be lost and are found by the head's address."""
    util = pytest.importorskip("ray.autoscaler._private.util")
    config = load("autoscaler-aws.yaml")
    util.validate_config({**config, "cluster_synced_files": []})
    assert any("$RAY_HEAD_IP" in line for line in config["worker_start_ray_commands"])


def test_the_file_for_kubernetes_is_valid() -> None:
    """By the fields of KubeRay that it uses; its command is one of rookery."""
    jsonschema = pytest.importorskip("jsonschema")
    job = load("kuberay.yaml")
    jsonschema.validate(job, RAY_JOB)
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[0] == "rookery"
    build_parser().parse_args(words[1:])
    for group in job["spec"]["rayClusterSpec"]["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


@pytest.mark.parametrize("name", ["slurm.sbatch", "laptop.sh", "kuberay.yaml", "autoscaler-aws.yaml"])
def test_lost_nodes_are_noticed_as_in_our_own_clusters(name: str) -> None:
    """The health checks are those of `HEALTH`."""
    from rookery.cluster.ray_start import HEALTH

    text = (FOLDER / name).read_text()
    for key in ("health_check_period_ms", "health_check_timeout_ms", "health_check_failure_threshold"):
        found = re.search(rf"RAY_{key}(?:=|, value: \")(\d+)", text)
        assert found and int(found[1]) == HEALTH[key]
