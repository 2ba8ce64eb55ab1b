"""Generates tokens by vLLM: generate.py MODEL [NAME=VALUE...], options of vllm.LLM. One line of the output is JSON."""

import json
import os
import sys

os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "HF_HUB_OFFLINE": "1", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}


def groups(worker):
    """The backends of a worker's groups."""
    import torch.distributed as dist
    from vllm.distributed import parallel_state
    made = {}
    for name in ("tp", "pp"):
        group = getattr(parallel_state, f"get_{name}_group")()
        if group.world_size > 1:
            made[name] = [dist.get_backend(group.device_group), type(group.device_communicator).__module__]
    return made


def main():
    from vllm import LLM, SamplingParams
    options = {name: json.loads(value) for name, value in (word.split("=") for word in sys.argv[2:])}
    llm = LLM(sys.argv[1], skip_tokenizer_init=True, max_model_len=128, kv_cache_memory_bytes=1 << 28, **options)
    prompts = [{"prompt_token_ids": list(range(3 + i, 20 + 3 * i))} for i in range(4)]
    outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=24, ignore_eos=True, detokenize=False))
    print(json.dumps({"tokens": [list(each.outputs[0].token_ids) for each in outputs], "groups": llm.collective_rpc(groups)}))


if __name__ == "__main__":
    main()
