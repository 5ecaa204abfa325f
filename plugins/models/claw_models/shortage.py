"""Lack of descriptors or memory on this machine, in the errors of model calls: neither service nor key is at fault."""

import errno
from collections.abc import Iterator

from claw import ProviderError
from claw.runtime import describe_exception

MACHINE = "machine"
"""The reason of such a failure."""
_NUMBERS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_TEXTS = (
    "too many open files",
    "cannot allocate memory",
    "no buffer space available",
)  # as strerror(3) has them


def as_shortage(failed: ProviderError) -> ProviderError:
    """Return the error of a call that this machine could not make; any other error as it is.

    A vendor's client wraps the error of the system, or keeps its text only. What a service reports has a status, and
    is about the service.
    """
    if failed.status is not None:
        return failed
    for one in (*_causes(failed), failed):
        text = str(one).lower()
        is_number = isinstance(one, OSError) and one.errno in _NUMBERS
        if is_number or isinstance(one, MemoryError) or any(words in text for words in _TEXTS):
            return ProviderError(
                "this machine has no free file descriptors or memory: {why}",
                fix="raise the limit (ulimit -n, LimitNOFILE in the unit) or end other programs; claw doctor shows it",
                reason=MACHINE,
                retryable=True,
                where=failed.where,
                why=describe_exception(one) if one is not failed else failed.problem,
            )
    return failed


def _causes(failed: BaseException) -> Iterator[BaseException]:
    """Yield the errors behind an error. (Without claw-http-sdk, which a model service need not use.)"""
    before = failed.__cause__ or failed.__context__
    while before is not None:
        yield before
        before = before.__cause__ or before.__context__
