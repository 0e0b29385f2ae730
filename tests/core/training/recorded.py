"""Recordings as the tests of training make and read them: small runs of one simulation, and which of their checks failed."""

from collections.abc import Callable

from core.recording import Recording
from core.simulation import record


def runs_of(simulation: str, **small: object) -> Callable[..., Recording]:
    """``run(**params)`` records ``simulation`` with ``params`` over the ``small`` ones."""

    def run(**params: object) -> Recording:
        return record(simulation, {**small, **params})

    return run


def failed(rec: Recording) -> list[str]:
    """The names of the checks that do not hold."""
    return [check.name for check in rec.checks if not check.ok]


def failed_kinds(rec: Recording) -> set[str]:
    """`failed`, each name up to its first comma."""
    return {name.partition(",")[0] for name in failed(rec)}
