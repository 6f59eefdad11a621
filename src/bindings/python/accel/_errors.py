"""Exceptions: one class for each kind of failure, all with the library's code and what to do about it."""
from __future__ import annotations


class AccelError(Exception):
    """A call failed.  `code` is accel_status ("ERROR_FORMAT" is `status`), `remedy` what to do ("" when there is nothing to say)."""

    def __init__(self, code: int, status: str, message: str, remedy: str = "") -> None:
        super().__init__(message + ("\n" + remedy if remedy else ""))
        self.code, self.status, self.message, self.remedy = code, status, message, remedy


class ArgumentError(AccelError, ValueError):
    """An argument or input tensor is not what the call takes."""


class UnsupportedError(AccelError):
    """The model, op, precision or option is not supported."""


class UnknownModelError(UnsupportedError, LookupError):
    """The registry does not know the model."""


class NotFoundError(AccelError, LookupError):
    """A file, directory or name does not exist."""


class FormatError(AccelError, ValueError):
    """A file is malformed."""


class DeviceUnavailableError(AccelError):
    """The device asked for cannot serve."""


class DeviceError(AccelError):
    """The device was lost, or its driver reported an error."""


class DoesNotFitError(AccelError, MemoryError):
    """The model does not fit the memory it may use."""


class NonfiniteError(AccelError, ArithmeticError):
    """The result holds NaN or infinity."""


class CancelledError(AccelError):
    """The cancel callback or a ticket's cancel() asked to stop."""


class QueueFullError(AccelError):
    """The endpoint's queue is full; wait for a ticket and submit again."""


class AccelTimeoutError(AccelError, TimeoutError):
    """The time limit passed."""


class VerifyError(AccelError):
    """The numbers are outside the bounds."""


BY_STATUS = {
    "ERROR_ARGUMENT": ArgumentError, "ERROR_UNSUPPORTED": UnsupportedError, "ERROR_PRECISION": UnsupportedError,
    "ERROR_UNKNOWN_MODEL": UnknownModelError, "ERROR_NOT_FOUND": NotFoundError, "ERROR_FORMAT": FormatError,
    "ERROR_DEVICE_UNAVAILABLE": DeviceUnavailableError, "ERROR_ABI": DeviceUnavailableError, "ERROR_DEVICE_LOST": DeviceError,
    "ERROR_DRIVER": DeviceError, "ERROR_DOES_NOT_FIT": DoesNotFitError, "ERROR_DEVICE_MEMORY": DoesNotFitError,
    "ERROR_OUT_OF_MEMORY": DoesNotFitError, "ERROR_NONFINITE": NonfiniteError, "ERROR_CANCELLED": CancelledError,
    "ERROR_QUEUE_FULL": QueueFullError, "ERROR_TIMEOUT": AccelTimeoutError, "ERROR_VERIFY": VerifyError,
}
