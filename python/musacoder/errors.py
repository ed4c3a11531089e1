"""Errors of the client, one class for each thing that a caller may want to treat differently.

`InfrastructureError` and its children say nothing about a candidate: never turn one into a reward. All others are the
caller's own mistakes (or a missing right), which no repetition repairs.
"""


class MusacoderError(Exception):
    """status: the HTTP status, None where there was no answer; code, field, request_id: the server's (docs/service.md 1)."""

    infra = False

    def __init__(self, message, status=None, code=None, field=None, request_id=None, retry_after_s=None):
        super().__init__(message)
        self.status, self.code, self.field = status, code, field
        self.request_id, self.retry_after_s = request_id, retry_after_s


class InvalidRequest(MusacoderError):
    """400, 405, 413, 415, 422, 431: `field` names what is wrong with the job."""


class Unauthenticated(MusacoderError):
    """401: no token, or one that the server does not know."""


class PermissionDenied(MusacoderError):
    """403: the token's role may not do that."""


class NotFound(MusacoderError):
    """404: no such job or task. Another token's job is not found either."""


class Conflict(MusacoderError):
    """409: this idempotency key belongs to another content."""


class InfrastructureError(MusacoderError):
    """The service, the network or the machine is at fault."""

    infra = True


class ServiceUnavailable(InfrastructureError):
    """5xx or 408 that lasted through all retries: queue full, draining, disk full, or a proxy without its server."""


class QuotaExceeded(InfrastructureError):
    """429 that lasted through all retries: the token's quota."""


class ConnectionFailed(InfrastructureError):
    """Nobody answered, the connection broke, or what came was not the service's JSON."""


class DeadlineExceeded(InfrastructureError):
    """The client's own timeout passed before the job ended."""


_BY_STATUS = {401: Unauthenticated, 403: PermissionDenied, 404: NotFound, 409: Conflict, 429: QuotaExceeded}


def error_of(status, body, retry_after_s):
    """The exception for a reply that is no success. body: the decoded JSON, or anything else that came."""
    told = body.get("error") if isinstance(body, dict) else None
    told = told if isinstance(told, dict) else {}
    kind = _BY_STATUS.get(status)
    if kind is None:
        kind = ServiceUnavailable if status >= 500 or status == 408 else InvalidRequest
    message = told.get("message") or f"the service answered {status} without saying why"
    if told.get("field"):
        message = f"{told['field']}: {message}"
    return kind(message, status, told.get("code"), told.get("field"), told.get("request_id"), retry_after_s)
