"""A small Llama with random weights, for tests and the benchmark: model.py FOLDER [NAME=NUMBER...]"""

import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SMALL = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 512, "max_position_embeddings": 256, "bos_token_id": 1,
         "eos_token_id": 2}


def save(folder, **options):
    """Writes the model; options are those of LlamaConfig."""
    torch.manual_seed(0)
    LlamaForCausalLM(LlamaConfig(**SMALL | options)).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    save(sys.argv[1], **{name: int(number) for name, number in (word.split("=") for word in sys.argv[2:])})
