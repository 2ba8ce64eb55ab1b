"""The names of errors that programs for torch.distributed catch."""

from tutti import errors

# A failed operation may be a TimeoutError, NetworkError, DisagreementError or BackendError here:
# a program that catches DistBackendError wants all of them.
DistError = errors.Error
DistBackendError = errors.Error
DistNetworkError = errors.NetworkError
DistStoreError = errors.StoreError
QueueEmptyError = errors.QueueEmptyError
DistQueueEmptyError = QueueEmptyError
