"""A plug-in of vLLM: its parallel groups on CPUs run on tutti. To install the package is enough."""

__all__ = ["register"]

TESTED = "0.32.0"
_SERIES = TESTED.rpartition(".")[0]
_COMMUNICATOR = f"{__name__}.communicator.Communicator"


def register() -> None:
    """Makes tutti the backend of vLLM's groups in this process, if vLLM runs on CPUs; on other devices it does nothing.

    vLLM calls it in each of its processes, before it makes groups. A second call does nothing. RuntimeError, which
    ends vLLM: this is a version of vLLM with which the plug-in was not tested.
    """
    import vllm
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    if not vllm.__version__.startswith(f"{_SERIES}."):
        raise RuntimeError(f"tutti-vllm was tested with vLLM {TESTED} and works with {_SERIES}.*; this is vLLM "
                           f"{vllm.__version__}. Install another version of one of them, or uninstall tutti-vllm; "
                           "VLLM_PLUGINS with the names of other plug-ins (or empty) runs vLLM without it")
    import tutti.torch  # noqa: F401  # torch knows the backend then
    from vllm.platforms.cpu import CpuPlatform

    CpuPlatform.dist_backend = "tutti"
    CpuPlatform.get_device_communicator_cls = classmethod(lambda cls: _COMMUNICATOR)
