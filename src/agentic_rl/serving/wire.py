"""What comes over the wire, read with care: anything malformed becomes a `WireError`, never a traceback."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

MISSING: Any = object()
MAX_INTEGER = 2**53


class WireError(Exception):
    """A request that is answered with an error status and a stable code."""

    def __init__(self, status: int, code: str, message: str) -> None:
        self.status = status
        self.code = code
        self.message = message
        super().__init__(message)


class OperationError(Exception):
    """A well-formed operation that cannot be done; the event ends as `failed` with this code."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


def malformed(message: str) -> WireError:
    return WireError(400, "invalid_request_body", message)


def decode_json(body: bytes) -> Mapping[str, Any]:
    """A JSON object; an empty body is an empty object."""
    if not body:
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise malformed("the body is not JSON") from None
    if not isinstance(value, dict):
        raise malformed("the body is not a JSON object")
    return value


def decode_msgpack(body: bytes) -> Mapping[str, Any]:
    """A MessagePack map with string keys."""
    import msgpack  # type: ignore[import-untyped]

    try:
        value = msgpack.unpackb(body, raw=False, strict_map_key=True)
    except Exception:  # msgpack raises its own, ValueError, TypeError and UnicodeDecodeError
        raise malformed("the body is not MessagePack") from None
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise malformed("the body is not a MessagePack map with string keys")
    return value


def encode_msgpack(value: Any) -> bytes:
    import msgpack

    packed: bytes = msgpack.packb(value, use_bin_type=True)
    return packed


def text(source: Mapping[str, Any], key: str, default: Any = MISSING, *, most: int = 4096) -> str:
    value = source.get(key, default)
    if not isinstance(value, str) or len(value) > most:
        raise malformed(f"{key} must be a string of at most {most} characters")
    return value


def flag(source: Mapping[str, Any], key: str, default: Any = MISSING) -> bool:
    value = source.get(key, default)
    if not isinstance(value, bool):
        raise malformed(f"{key} must be true or false")
    return value


def integer(
    source: Mapping[str, Any], key: str, default: Any = MISSING, *, least: int | None = None, most: int = MAX_INTEGER
) -> int:
    value = source.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > most:
        raise malformed(f"{key} must be an integer")
    if least is not None and value < least:
        raise malformed(f"{key} must be at least {least}, not {value}")
    return value


def optional_integer(source: Mapping[str, Any], key: str, *, least: int | None = None) -> int | None:
    return None if source.get(key) is None else integer(source, key, least=least)


def number(source: Mapping[str, Any], key: str, default: Any = MISSING, *, least: float | None = None) -> float:
    value = source.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise malformed(f"{key} must be a finite number")
    if least is not None and value < least:
        raise malformed(f"{key} must be at least {least}, not {value}")
    return float(value)


def mapping(source: Mapping[str, Any], key: str, default: Any = MISSING) -> Mapping[str, Any]:
    value = source.get(key, default)
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise malformed(f"{key} must be a map with string keys")
    return value


def sequence(source: Mapping[str, Any], key: str, default: Any = MISSING) -> list[Any]:
    value = source.get(key, default)
    if not isinstance(value, list):
        raise malformed(f"{key} must be a list")
    return value


def integers(source: Mapping[str, Any], key: str, default: Any = MISSING) -> list[int]:
    values = sequence(source, key, default)
    # Thousands of tokens a request: types and bounds are looked at without a step of Python for each.
    if not set(map(type, values)) <= {int} or (values and max(max(values), -min(values)) > MAX_INTEGER):
        raise malformed(f"{key} must hold integers")
    return values


def numbers(source: Mapping[str, Any], key: str, default: Any = MISSING) -> list[float]:
    values = sequence(source, key, default)
    if not set(map(type, values)) <= {int, float} or not all(map(math.isfinite, values)):
        raise malformed(f"{key} must hold finite numbers")
    return values


def strings(source: Mapping[str, Any], key: str, default: Any = MISSING) -> list[str]:
    values = sequence(source, key, default)
    if not all(isinstance(value, str) and value for value in values):
        raise malformed(f"{key} must hold strings that are not empty")
    return list(values)


def chunk_tokens(source: Mapping[str, Any], key: str, *, vocabulary: int) -> list[int]:
    """The tokens of a `{chunks: [...]}` object; images are refused, and so are ids outside the vocabulary."""
    tokens: list[int] = []
    for chunk in sequence(mapping(source, key), "chunks"):
        if not isinstance(chunk, dict):
            raise malformed("a chunk must be a map")
        if chunk.get("type") == "image":
            raise WireError(400, "images_not_supported", "this server takes text only")
        if chunk.get("type") != "encoded_text":
            raise malformed("a chunk's type must be encoded_text")
        tokens += integers(chunk, "tokens")
    if tokens and (min(tokens) < 0 or max(tokens) >= vocabulary):
        raise WireError(400, "token_out_of_range", f"token ids must lie in 0…{vocabulary - 1}")
    return tokens
