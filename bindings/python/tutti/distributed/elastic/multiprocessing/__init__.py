"""As torch.distributed.elastic.multiprocessing: `errors` only. Processes are started by tutti.multiprocessing."""
