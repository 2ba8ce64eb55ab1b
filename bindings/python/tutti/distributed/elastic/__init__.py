"""The part of torch.distributed.elastic that programs take: `multiprocessing.errors.record`. The launcher is tuttirun."""
