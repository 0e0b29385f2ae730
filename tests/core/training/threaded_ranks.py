"""torch.distributed with every rank a thread of this process: the real collectives, DDP and fully_shard, in a second or so."""

import functools
import threading
from collections import Counter
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.testing._internal.distributed.multi_threaded_pg import ProcessLocalGroup, _install_threaded_pg, _uninstall_threaded_pg

_METHODS = {
    "all_gather": ("all_gather_single", "_allgather_base"),  # the newer name and the older one
    "reduce_scatter": ("reduce_scatter_single", "_reduce_scatter_base"),
    "all_reduce": ("allreduce",),
}
_calls = {}


def calls_of_this_rank():
    """Collectives that this thread's rank has called since `run_ranks` began, by name."""
    return Counter(_calls.get(threading.get_ident(), {}))


def _counted(name, method):
    @functools.wraps(method)
    def call(*args, **kwargs):
        _calls.setdefault(threading.get_ident(), Counter())[name] += 1
        return method(*args, **kwargs)

    return call


def run_ranks(ranks, body):
    """``body(rank)`` on each of so many ranks at once; their results in rank order."""
    results, errors = [None] * ranks, []
    torch._C._distributed_c10d._set_thread_isolation_mode(True)
    _install_threaded_pg()
    _calls.clear()
    methods = {method: _counted(name, getattr(ProcessLocalGroup, method)) for name, its in _METHODS.items() for method in its
               if hasattr(ProcessLocalGroup, method)}  # fmt: skip
    store = dist.HashStore()

    def worker(rank):
        try:
            dist.init_process_group("threaded", rank=rank, world_size=ranks, store=store)
            results[rank] = body(rank)
            dist.destroy_process_group()
        except BaseException as error:
            errors.append(error)
            ProcessLocalGroup.exception_handle(error)

    try:
        with torch.autograd.set_multithreading_enabled(False), patch.multiple(ProcessLocalGroup, **methods):
            threads = [threading.Thread(target=worker, args=(rank,)) for rank in range(ranks)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        ProcessLocalGroup.reset()
        _uninstall_threaded_pg()
        torch._C._distributed_c10d._set_thread_isolation_mode(False)
    if errors:
        raise errors[0]
    return results
