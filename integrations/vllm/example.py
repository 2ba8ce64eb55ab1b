"""Generates tokens by vLLM on two ranks, with whatever plug-ins are installed.

    python integrations/vllm/example.py [MODEL]        # without a model: a small one with random weights

vLLM starts the ranks. It takes one to two minutes on two cores.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")
os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # for backend() below
HERE = pathlib.Path(__file__).parent


def backend(worker: object) -> str:
    """The backend of a worker's tensor-parallel group."""
    import torch.distributed as dist
    from vllm.distributed import get_tp_group
    return str(dist.get_backend(get_tp_group().device_group))


def main() -> None:
    """Prints the tokens."""
    from vllm import LLM, SamplingParams
    with tempfile.TemporaryDirectory() as folder:
        if sys.argv[1:]:
            model, prompts = sys.argv[1], ["Four ranks play together, and"]
        else:
            subprocess.run([sys.executable, HERE / "tests" / "model.py", folder], check=True)
            model, prompts = folder, [{"prompt_token_ids": [5, 6, 7]}]
        llm = LLM(model, skip_tokenizer_init=not sys.argv[1:], tensor_parallel_size=2, enforce_eager=True, max_model_len=128,
                  kv_cache_memory_bytes=1 << 28)
        output = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=16, detokenize=bool(sys.argv[1:])))[0].outputs[0]
        print("the ranks run on", llm.collective_rpc(backend))
        print(output.text or list(output.token_ids))


if __name__ == "__main__":
    main()
