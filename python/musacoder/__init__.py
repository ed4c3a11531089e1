"""Client of MooreEval, the verifier that judges CUDA candidates against PyTorch references.

    from musacoder import Client

    with Client("http://127.0.0.1:8811") as judge:
        result = judge.verify(answer, task="level1/19")
        print(result.reward, result.status, result.feedback)

`musacoder.adapters` holds the reward functions of verl, TRL, SkyRL-gym, verifiers, AReaL, ms-swift, rLLM, slime and
OpenRLHF. Only the standard library is needed. The service's contract is docs/service.md, the trainers' docs/trainers.md.
"""

from .client import Client, Result, job_of
from .errors import (
    Conflict,
    ConnectionFailed,
    DeadlineExceeded,
    InfrastructureError,
    InvalidRequest,
    MusacoderError,
    NotFound,
    PermissionDenied,
    QuotaExceeded,
    ServiceUnavailable,
    Unauthenticated,
)

__version__ = "0.1.0"
__all__ = [
    "Client",
    "Conflict",
    "ConnectionFailed",
    "DeadlineExceeded",
    "InfrastructureError",
    "InvalidRequest",
    "MusacoderError",
    "NotFound",
    "PermissionDenied",
    "QuotaExceeded",
    "Result",
    "ServiceUnavailable",
    "Unauthenticated",
    "job_of",
]
