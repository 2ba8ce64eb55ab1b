"""Time of a token in vLLM with two ranks, on tutti and on what vLLM has without the plug-in.

    python integrations/vllm/bench.py [--hidden 512] [--layers 4] [--prompts 1,8] [--tokens 16]

One vLLM runs both: its workers hold a group of each kind and change between them from turn to turn, so torch.compile
is off. The model has random weights. The table has medians over the rounds, and the median of the ratios within a round.
"""

import argparse
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1",
               "VLLM_LOGGING_LEVEL": "ERROR"}
# The threads of both ranks do not take CPUs from each other.
os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // 2)))
HERE = pathlib.Path(__file__).parent
BUDGET = 20.0  # seconds of the rounds with one number of prompts; there are 3 at least
SIDES = ("vLLM", "tutti")


def make_sides(worker: object) -> str:
    """Makes vLLM's own communicator beside that of the plug-in, and says which both are."""
    import torch.distributed as dist
    from vllm.distributed import get_tp_group
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator
    tp = get_tp_group()
    group = dist.new_group(tp.ranks, backend="gloo")
    stock = CpuCommunicator(cpu_group=tp.cpu_group, device=tp.device, device_group=group, unique_name=tp.unique_name)
    worker.sides = {"vLLM": (stock, group), "tutti": (tp.device_communicator, tp.device_group)}  # type: ignore[attr-defined]
    return (f"vLLM's by {getattr(stock.dist_module, '__name__', type(stock.dist_module).__name__)} on {dist.get_backend(group)}, "
            f"{type(tp.device_communicator).__module__} on {dist.get_backend(tp.device_group)}")


def change(worker: object, side: str) -> None:
    """Lets the tensor-parallel group use the communicator of that side."""
    from vllm.distributed import get_tp_group
    tp = get_tp_group()
    tp.device_communicator, tp.device_group = worker.sides[side]  # type: ignore[attr-defined]


def machine() -> str:
    """The machine and what runs on it, in a line."""
    import torch
    import tutti
    import vllm
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        model = next((line.split(":")[1].strip() for line in info if line.startswith("model name")), platform.machine())
    return (f"{model}, {len(os.sched_getaffinity(0))} CPUs; vLLM {vllm.__version__}, torch {torch.__version__}, "
            f"tutti {tutti.__version__}")


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hidden", type=int, default=512, help="width of the model [%(default)s]")
    parser.add_argument("--layers", type=int, default=4, help="[%(default)s]")
    parser.add_argument("--prompts", default="1,8", help="how many at a time [%(default)s]")
    parser.add_argument("--tokens", type=int, default=16, help="of each prompt in a turn [%(default)s]")
    options = parser.parse_args()
    from vllm import LLM, SamplingParams
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, HERE / "tests" / "model.py", folder, f"hidden_size={options.hidden}",
                        f"intermediate_size={3 * options.hidden}", f"num_hidden_layers={options.layers}"], check=True)
        llm = LLM(folder, skip_tokenizer_init=True, tensor_parallel_size=2, enforce_eager=True, max_model_len=128,
                  kv_cache_memory_bytes=1 << 28)
        print(machine())
        print("communicators:", llm.collective_rpc(make_sides)[0])
        print(f"hidden {options.hidden}, {options.layers} layers, 2 ranks; ms for a token of each prompt\n")
        print("| prompts at a time | vLLM | tutti | ratio | rounds |\n|---|---|---|---|---|")
        sampling = SamplingParams(temperature=0, max_tokens=options.tokens, ignore_eos=True, detokenize=False)
        for count in map(int, options.prompts.split(",")):
            prompts = [{"prompt_token_ids": list(range(3 + i, 19 + i))} for i in range(count)]
            times: dict[str, list[float]] = {side: [] for side in SIDES}
            until = time.monotonic() + BUDGET
            while len(times["tutti"]) < 4 or time.monotonic() < until:
                for side in SIDES[::1 if len(times["tutti"]) % 2 else -1]:
                    llm.collective_rpc(change, args=(side,))
                    began = time.perf_counter()
                    llm.generate(prompts, sampling, use_tqdm=False)
                    times[side].append((time.perf_counter() - began) / options.tokens * 1e3)
            stock, ours = (statistics.median(times[side][1:]) for side in SIDES)  # the first warms up
            ratio = statistics.median(b / a for a, b in zip(times["vLLM"][1:], times["tutti"][1:]))
            print(f"| {count} | {stock:.2f} | {ours:.2f} | {ratio:.2f} | {len(times['tutti']) - 1} |", flush=True)


if __name__ == "__main__":
    main()
